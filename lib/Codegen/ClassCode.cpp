// Writes a class function as instructions: kernels, contractions, copies.
#include "ClassCode.h"
#include "lib/Memory/Buffers.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;
using namespace parashard::codegen;
using namespace parashard::fusion;
namespace json = llvm::json;

StringRef codegen::getDtypeName(Type element) {
  if (element.isInteger(1))
    return "bool";
  if (element.isF32())
    return "f32";
  if (element.isF64())
    return "f64";
  if (element.isF16())
    return "f16";
  if (element.isBF16())
    return "bf16";
  if (isa<Float8E4M3FNType>(element))
    return "f8e4m3";
  if (isa<Float8E5M2Type>(element))
    return "f8e5m2";
  unsigned width = element.getIntOrFloatBitWidth();
  if (element.isUnsignedInteger())
    return "u8";
  return width == 64 ? "i64" : width == 32 ? "i32" : width == 16 ? "i16" : "i8";
}

void codegen::describeTypes(json::Object &object, Value operand, Value result) {
  Type in = getElementTypeOrSelf(operand.getType()), out = getElementTypeOrSelf(result.getType());
  object["dtype"] = getDtypeName(in);
  if (in != out)
    object["out_dtype"] = getDtypeName(out);
}

std::string codegen::describeLocation(Location loc) {
  if (auto named = dyn_cast<NameLoc>(loc)) {
    std::string inner = describeLocation(named.getChildLoc());
    return inner.empty() ? named.getName().str() : named.getName().str() + " (" + inner + ")";
  }
  if (auto file = dyn_cast<FileLineColLoc>(loc))
    return file.getFilename().str() +
           (file.getLine() ? ":" + std::to_string(file.getLine()) : std::string());
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (std::string text = describeLocation(part); !text.empty())
        return text;
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return describeLocation(call.getCallee());
  return "";
}

json::Object ClassCode::begin(StringRef name, Operation *op) {
  json::Object object{{"op", name}};
  if (std::string loc = describeLocation(op->getLoc()); !loc.empty())
    object["loc"] = loc;
  return object;
}

/// Returns [base, byte offset] of the first element of a value, which may be a view. Adds `extra`
/// to the offset.
json::Value ClassCode::buffer(Value value, int64_t extra) {
  auto view = getView(value);
  Value root = view ? view->base : getRoot(value);
  int64_t offset = extra;
  if (view)
    offset += view->offset *
              ps::getByteSize(RankedTensorType::get({1}, getElementTypeOrSelf(value.getType())));
  unsigned base = buffers.getBase(root);
  if (Operation *op = root.getDefiningOp(); op && base == buffers.getScratchBase())
    offset +=
        op->getAttrOfType<DenseI64ArrayAttr>(kOffsetsMark)[cast<OpResult>(root).getResultNumber()];
  return json::Array{base, offset};
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// Records the names of an op's kernels on the op, for tools that inspect the program.
static void recordKernels(ps::FusedOp op, ArrayRef<KernelCall> calls) {
  SmallVector<StringRef> names;
  for (const KernelCall &call : calls)
    if (!call.name.empty())
      names.push_back(call.name);
  op->setAttr(kKernelsMark, Builder(op.getContext()).getStrArrayAttr(names));
}

LogicalResult ClassCode::writeFused(ps::FusedOp op) {
  FusedContext context;
  for (Value input : op.getInputs())
    context.scalarSlots.push_back(
        isa<RankedTensorType>(input.getType()) ? -1 : buffers.getScalarSlot(input));
  for (Value result : op.getResults()) {
    int ref = buffers.getAccumulated(result);
    context.firstSlots.push_back(ref < 0 ? -1 : buffers.getFirstSlot(ref));
  }
  const SmallVector<KernelCall> *calls = kernels.get(op, context);
  if (!calls)
    return failure();
  int64_t workspace = 0;
  if (auto offset = op->getAttrOfType<IntegerAttr>(kWorkspaceOffsetMark))
    workspace = offset.getInt();
  recordKernels(op, *calls);
  for (const KernelCall &call : *calls) {
    if (call.name.empty()) {
      json::Object zero = begin("zero", op);
      zero["out"] = buffer(op.getResult(0));
      zero["bytes"] = ps::getByteSize(op.getResult(0).getType());
      add(std::move(zero));
      continue;
    }
    json::Object object = begin("kernel", op);
    object["kernel"] = kernels.getNumber(call.name);
    json::Array args, writes;
    for (const KernelCall::Buffer &argument : call.buffers) {
      if (argument.writes)
        writes.push_back(int64_t(args.size()));
      if (argument.kind == KernelCall::Argument::Input)
        args.push_back(buffer(op.getInputs()[argument.index]));
      else if (argument.kind == KernelCall::Argument::Output)
        args.push_back(buffer(op.getResult(argument.index)));
      else
        args.push_back(json::Array{buffers.getScratchBase(), workspace + argument.offset});
    }
    object["args"] = std::move(args);
    object["rows"] = call.rows;
    object["grain"] = call.grain;
    object["bytes"] = call.bytes;
    if (call.block > 0) {
      object["grid"] = call.grid;
      object["block"] = call.block;
      object["writes"] = std::move(writes);
    }
    add(std::move(object));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

LogicalResult ClassCode::writeContract(ps::ContractOp op) {
  auto lhs = getView(op.getLhs()), rhs = getView(op.getRhs());
  std::optional<MatmulForm> form;
  if (lhs && rhs)
    form = getMatmul(op, *lhs, *rhs);
  if (!form)
    return op.emitOpError("cannot be expressed as a strided batch matmul; run ps-fuse first, which "
                          "copies such operands");
  if (op.getBias() && countElements(op.getBias()) != form->n)
    return op.emitOpError("has a bias of ")
           << countElements(op.getBias()) << " elements, but its matmul has " << form->n
           << " columns; run ps-fuse{biases=false}";
  Operation *collective = getChunkedCollective(op);
  if (!collective)
    return writeMatmul(op, {*form}), success();
  if (std::optional<ChunkedMatmul> matmul = getChunkedMatmul(collective); matmul->follows)
    writeChunks(*matmul, collective);
  return success(); // else writeCollective writes the matmul
}

static int64_t getElementBytes(Value value) {
  return ps::getByteSize(RankedTensorType::get({1}, getElementTypeOrSelf(value.getType())));
}

void ClassCode::writeMatmul(ps::ContractOp op, const MatmulChunk &chunk) {
  const MatmulForm &form = chunk.form;
  auto from = [&](Value value, int64_t first) {
    return buffer(value, first * getElementBytes(value));
  };
  json::Object object = begin("matmul", op);
  Value lhs = form.swapped ? op.getRhs() : op.getLhs(),
        rhs = form.swapped ? op.getLhs() : op.getRhs();
  describeTypes(object, lhs, op.getResult());
  object["batch"] = json::Array(form.batch);
  object["m"] = form.m;
  object["n"] = form.n;
  object["k"] = form.k;
  object["lhs"] = from(lhs, chunk.lhs);
  object["rhs"] = from(rhs, chunk.rhs);
  object["out"] = from(op.getResult(), chunk.out);
  object["lhs_strides"] = json::Array(form.lhs);
  object["rhs_strides"] = json::Array(form.rhs);
  object["out_strides"] = json::Array(form.out);
  object["accumulate"] = buffers.getAccumulated(op.getResult());
  if (op.getBias())
    object["bias"] = buffer(op.getBias()); // chunks share the bias
  if (op.isOfFloat8()) {
    object["rhs_dtype"] = getDtypeName(getElementTypeOrSelf(rhs.getType()));
    object["lhs_scale"] = buffer(form.swapped ? op.getRhsScale() : op.getLhsScale());
    object["rhs_scale"] = buffer(form.swapped ? op.getLhsScale() : op.getRhsScale());
  }
  if (op.hasActivation())
    object["activation"] = op.getGelu() ? "gelu" : "gelu_grad";
  if (Value aux = op.getGelu() ? op.getPreActivation() : op.getAux())
    object["aux"] = from(aux, chunk.out);
  if (op.getSums()) {
    object["sums"] = buffer(op.getSums());
    object["summed"] = (*op.getSummed() == 0) != form.swapped ? "lhs" : "rhs";
  }
  add(std::move(object));
}

void ClassCode::writeChunks(const ChunkedMatmul &matmul, Operation *collective) {
  int64_t count = getChunkCount(collective);
  for (int64_t i = 0; i < count; ++i) {
    if (matmul.follows)
      addWait(collective, i);
    writeMatmul(matmul.contract, getChunk(matmul, i, count));
    if (!matmul.follows)
      addCollective(collective, i, count);
  }
}

//===----------------------------------------------------------------------===//
// Library calls
//===----------------------------------------------------------------------===//

namespace {
/// Provides an op with the buffers and strides of its operands and results in a class function.
/// Collects the fields of the op's instruction.
class InstructionBuilder : public ps::CallBuilder {
public:
  using Address = llvm::function_ref<json::Value(Value)>;
  InstructionBuilder(json::Object &object, const ClassBuffers &buffers, Address address)
      : object(object), buffers(buffers), address(address) {}

  void add(StringRef field, json::Value value) override { object[field.str()] = std::move(value); }
  void addType(StringRef field, Type element) override {
    object[field.str()] = getDtypeName(element);
  }
  void addBuffer(StringRef field, Value value) override { object[field.str()] = address(value); }
  std::optional<SmallVector<int64_t>> getStrides(Value value) override {
    auto view = getView(value);
    return view ? std::optional(SmallVector<int64_t>(view->strides.begin(), view->strides.end()))
                : std::nullopt;
  }
  int64_t getAccumulated(Value result) override { return buffers.getAccumulated(result); }
  int64_t getKeyNumber(Value key) override { return buffers.getScalarSlot(key) - kKeySlots; }

private:
  static constexpr int64_t kKeySlots = 3; ///< number of slots before the keys
  json::Object &object;
  const ClassBuffers &buffers;
  Address address;
};
} // namespace

LogicalResult ClassCode::writeCall(ps::LoweringOpInterface op) {
  json::Object object = begin(op->getName().stripDialect(), op);
  auto addressOf = [&](Value value) { return buffer(value); }; // must outlive the builder
  InstructionBuilder builder(object, buffers, addressOf);
  if (failed(op.emitCall(builder)))
    return failure();
  add(std::move(object));
  return success();
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void ClassCode::writeCopies() {
  for (auto [value, base] : buffers.getCopies()) {
    json::Object object{{"op", "copy"}};
    object["in"] = buffer(value);
    object["out"] = json::Array{base, 0};
    object["bytes"] = ps::getByteSize(value.getType());
    add(std::move(object));
  }
}

/// Fails for computations on unsigned bytes, which programs can only move and convert.
static LogicalResult checkTypes(Operation *op) {
  auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
  bool computes = lowering && lowering.getLoweringKind() != ps::LoweringKind::Movement;
  auto check = [&](Type type, bool isConverted) -> LogicalResult {
    Type element = getElementTypeOrSelf(type);
    if (!computes || isConverted || !element.isUnsignedInteger())
      return success();
    return op->emitOpError() << "has the element type " << element
                             << ", which programs can only move and convert; convert the tensor to "
                                "float32 in the model";
  };
  for (Type type : op->getOperandTypes())
    if (failed(check(type, isa<ps::ConvertOp>(op))))
      return failure();
  for (Type type : op->getResultTypes())
    if (failed(check(type, false)))
      return failure();
  return success();
}

LogicalResult ClassCode::write(Operation *op) {
  WalkResult checked = op->walk([](Operation *inner) { return WalkResult(checkTypes(inner)); });
  if (checked.wasInterrupted())
    return failure();
  if (auto fused = dyn_cast<ps::FusedOp>(op))
    return writeFused(fused);
  if (auto contract = dyn_cast<ps::ContractOp>(op))
    return writeContract(contract);
  if (auto wait = dyn_cast<ps::WaitOp>(op))
    return writeWait(wait);
  if (auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
      lowering && lowering.getLoweringKind() == ps::LoweringKind::Library)
    return writeCall(lowering);
  if (isa<ps::ReadOp, ps::WriteOp, ps::AccumulateOp, func::ReturnOp>(op) || isView(op))
    return success();
  return writeCollective(op);
}

json::Array ClassCode::describeScratch(ArrayRef<int64_t> ends) {
  json::Array list;
  for (const Buffer &buffer : findScratchBuffers(function)) {
    auto [begin, end, bytes] = buffer.lifetime;
    int64_t last = end < int64_t(ends.size()) ? ends[end] - 1 : code.size();
    list.push_back(json::Array{*getAddress(buffer, kOffsetsMark, kWorkspaceOffsetMark), bytes,
                               begin > 0 ? ends[begin - 1] : 0, last});
  }
  return list;
}

std::optional<json::Object> ClassCode::write() {
  SmallVector<int64_t> ends; // number of instructions up to and including each op
  for (Operation &op : function.getBody().front()) {
    if (failed(write(&op)))
      return std::nullopt;
    ends.push_back(code.size());
  }
  writeCopies();
  return json::Object{{"name", function.getName()},       {"bases", buffers.getBaseCount()},
                      {"refs", buffers.getRefs().size()}, {"keys", buffers.getKeyCount()},
                      {"buffers", describeScratch(ends)}, {"code", std::move(code)}};
}
