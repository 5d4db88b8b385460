// Writes the collectives of a class function as instructions.
#include "ClassCode.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;
using namespace parashard::fusion;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

static json::Array toJson(ArrayAttr names) {
  json::Array array;
  for (Attribute name : names)
    array.push_back(cast<StringAttr>(name).getValue());
  return array;
}

void codegen::describeCollective(json::Object &object, StringRef name, ArrayAttr axes,
                                 Type element) {
  object["op"] = name;
  object["axes"] = toJson(axes);
  object["dtype"] = getDtypeName(element);
}

void codegen::describeDim(json::Object &object, ArrayRef<int64_t> shape, int64_t dim) {
  int64_t outer = 1, inner = 1;
  for (int64_t size : shape.take_front(dim))
    outer *= size;
  for (int64_t size : shape.drop_front(dim + 1))
    inner *= size;
  object["outer"] = outer;
  object["size"] = shape[dim];
  object["inner"] = inner;
}

static std::string joinAxes(ArrayAttr axes) {
  std::string name;
  for (Attribute axis : axes)
    name += (name.empty() ? "" : "+") + cast<StringAttr>(axis).getValue().str();
  return name;
}

void ClassCode::addCollective(Operation *op, int64_t number, int64_t count) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  json::Object object = begin("", op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  describeCollective(object, op->getName().stripDialect(), axes, type.getElementType());
  object["queue"] = joinAxes(axes);
  if (auto token = tokens.find(op); token != tokens.end()) {
    // Uses a separate queue. On the queue of the axes, this collective would wait for collectives
    // that the program has started before, which may take long.
    object["queue"] = joinAxes(axes) + ".run";
    object["wait"] = token->second + number;
  }
  auto bufferOf = [&](Value value) {
    return buffer(value, ps::getByteSize(value.getType()) / count * number);
  };
  object["out"] = bufferOf(op->getResult(0));
  if (op->getNumOperands())
    object["in"] = bufferOf(op->getOperand(0));
  auto shapeOf = [](Value value) { return cast<RankedTensorType>(value.getType()).getShape(); };
  TypeSwitch<Operation *>(op)
      .Case<ps::AllReduceOp>([&](auto reduce) {
        object["kind"] = ps::stringifyReductionKind(reduce.getKind());
        object["count"] = type.getNumElements() / count;
      })
      .Case<ps::ReduceScatterOp>([&](auto scatter) {
        object["kind"] = ps::stringifyReductionKind(scatter.getKind());
        describeDim(object, type.getShape(), scatter.getDim());
      })
      .Case<ps::AllGatherOp>(
          [&](auto gather) { describeDim(object, shapeOf(gather.getOperand()), gather.getDim()); })
      .Case<ps::AllToAllOp>([&](auto exchange) {
        object["shape"] = json::Array(shapeOf(exchange.getOperand()));
        object["split"] = exchange.getSplit();
        object["concat"] = exchange.getConcat();
      })
      .Case<ps::PermuteOp>([&](auto permute) {
        object["targets"] = json::Array(permute.getTargets());
        object["count"] = type.getNumElements();
      })
      .Case<ps::ShardSliceOp>([&](auto slice) {
        describeDim(object, type.getShape(), slice.getDim());
        object["whole"] = shapeOf(slice.getOperand())[slice.getDim()];
      });
  // Splits the dims before the collective's dim into chunks. If all of these dims have size 1,
  // splits the collective's dim.
  if (std::optional<int64_t> outer = object.getInteger("outer"))
    object[*outer > 1 ? "outer" : "size"] =
        (*outer > 1 ? *outer : *object.getInteger("size")) / count;
  add(std::move(object));
}

LogicalResult ClassCode::writeCollective(Operation *op) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  if (!axes || op->getNumResults() != 1)
    return op->emitError() << "'" << op->getName() << "' is not supported in a compiled program";
  int64_t count = getChunkCount(op);
  std::optional<ChunkedMatmul> matmul = getChunkedMatmul(op);
  if (count > 1 && (!matmul || matmul->size % count != 0))
    return op->emitOpError() << "has " << kChunksMark << " = " << count << ", but "
                             << (matmul
                                     ? "the dim to split has size " + std::to_string(matmul->size)
                                     : std::string("there is no matmul to split with"))
                             << "; run ps-start-collectives, or remove the attribute";
  if (getWait(op)) {
    tokens[op] = tokenCount;
    tokenCount += count;
  }
  if (matmul && !matmul->follows)
    return writeChunks(*matmul, op), success();
  for (int64_t i = 0; i < count; ++i)
    addCollective(op, i, count);
  return success();
}

void ClassCode::addWait(Operation *collective, int64_t number) {
  add(json::Object{{"wait", tokens.lookup(collective) + number}});
}

LogicalResult ClassCode::writeWait(ps::WaitOp op) {
  Operation *collective = op.getOperand().getDefiningOp();
  std::optional<ChunkedMatmul> matmul = getChunkedMatmul(collective);
  if (matmul && matmul->follows)
    return success(); // each chunk of the matmul waits for its chunk of the collective
  for (int64_t i = 0, count = getChunkCount(collective); i < count; ++i)
    addWait(collective, i);
  return success();
}
