// Generates kernel functions, thread indices, barriers, shuffles and shared memory, for PTX and for
// replay.
#include "ThreadCode.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

static constexpr llvm::StringLiteral kHooks = "psrt_replay_hooks";
/// Field numbers of PsrtReplayHooks.
enum Hook { ThreadIndex, BlockIndex, BlockSize, GridSize, Barrier, ShuffleXor };

static Value constant32(OpBuilder &b, Location loc, int64_t value) {
  return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(int32_t(value)));
}

static Type pointerType(OpBuilder &b) { return LLVM::LLVMPointerType::get(b.getContext()); }

static Value elementPointer(OpBuilder &b, Location loc, Value base, int64_t index) {
  return LLVM::GEPOp::create(b, loc, pointerType(b), pointerType(b), base,
                             ArrayRef<LLVM::GEPArg>{int32_t(index)});
}

//===----------------------------------------------------------------------===//
// Kernel functions
//===----------------------------------------------------------------------===//

/// Adds the global `const uint32_t NAME_parameters[] = {count, 8, 8, ...}`.
static void describeParameters(ModuleOp module, Location loc, StringRef name, unsigned count) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  SmallVector<int32_t> numbers(count + 1, sizeof(void *));
  numbers[0] = int32_t(count);
  auto type = LLVM::LLVMArrayType::get(b.getI32Type(), numbers.size());
  LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::External,
                         (name + "_parameters").str(), b.getI32TensorAttr(numbers), 4);
}

void ThreadCode::begin(OpBuilder &b, Location loc, ModuleOp module, StringRef name, int64_t block) {
  b.setInsertionPointToEnd(module.getBody());
  auto voidType = LLVM::LLVMVoidType::get(b.getContext());
  SmallVector<Type> arguments;
  if (replays)
    arguments.push_back(pointerType(b));
  function =
      LLVM::LLVMFuncOp::create(b, loc, name, LLVM::LLVMFunctionType::get(voidType, arguments));
  if (!replays) {
    function.setCConv(LLVM::CConv::PTX_Kernel);
    function.setPassthroughAttr(
        b.getArrayAttr({b.getStrArrayAttr({"nvvm.reqntid", std::to_string(block)}),
                        // Lets a thread use all registers. Otherwise, ptxas would spill registers
                        // to fit more blocks.
                        b.getStrArrayAttr({"nvvm.minctasm", "1"})}));
  }
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  Operation *end = LLVM::ReturnOp::create(b, loc, ValueRange{});
  b.setInsertionPoint(end);
  last = LLVM::PoisonOp::create(b, loc, pointerType(b));
}

Value ThreadCode::takePointer(OpBuilder &b, Location loc, unsigned number) {
  Block &entry = function.getBody().front();
  if (!replays)
    return entry.addArgument(pointerType(b), loc);
  // params[number] points to the value.
  Value slot = elementPointer(b, loc, entry.getArgument(0), number);
  Value address = LLVM::LoadOp::create(b, loc, pointerType(b), slot, 8);
  return LLVM::LoadOp::create(b, loc, pointerType(b), address, 8);
}

void ThreadCode::end(OpBuilder &b, Location loc, unsigned count) {
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(last.getDefiningOp());
    Value parameter = takePointer(b, loc, count);
    Operation *placeholder = last.getDefiningOp();
    last.replaceAllUsesWith(parameter);
    placeholder->erase();
    last = {};
  }
  if (replays)
    return describeParameters(function->getParentOfType<ModuleOp>(), loc, function.getName(),
                              count + 1);
  auto voidType = LLVM::LLVMVoidType::get(b.getContext());
  SmallVector<Type> arguments(function.getBody().front().getArgumentTypes());
  function.setFunctionType(LLVM::LLVMFunctionType::get(voidType, arguments));
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

static Value callIntrinsic(OpBuilder &b, Location loc, StringRef name, Type result,
                           ValueRange operands) {
  auto call = result
                  ? LLVM::CallIntrinsicOp::create(b, loc, result, b.getStringAttr(name), operands)
                  : LLVM::CallIntrinsicOp::create(b, loc, b.getStringAttr(name), operands);
  return result ? call->getResult(0) : Value();
}

/// Calls function `number` of the replay hooks. A global variable of the image points to the hooks.
Value ThreadCode::callHook(OpBuilder &b, Location loc, unsigned number, ValueRange operands,
                           bool hasResult) {
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(kHooks)) {
    OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
    auto global = LLVM::GlobalOp::create(top, loc, pointerType(b), /*isConstant=*/false,
                                         LLVM::Linkage::External, kHooks, Attribute(), 8);
    OpBuilder::InsertionGuard guard(top);
    Block *block = top.createBlock(&global.getInitializerRegion());
    top.setInsertionPointToStart(block);
    LLVM::ReturnOp::create(top, loc, LLVM::ZeroOp::create(top, loc, pointerType(b)).getResult());
  }
  Value address = LLVM::AddressOfOp::create(b, loc, pointerType(b), kHooks);
  Value table = LLVM::LoadOp::create(b, loc, pointerType(b), address, 8);
  Value hook =
      LLVM::LoadOp::create(b, loc, pointerType(b), elementPointer(b, loc, table, number), 8);
  Type result = hasResult ? Type(b.getI32Type()) : LLVM::LLVMVoidType::get(b.getContext());
  auto type = LLVM::LLVMFunctionType::get(result, llvm::to_vector(operands.getTypes()));
  SmallVector<Value> all{hook};
  llvm::append_range(all, operands);
  auto call = LLVM::CallOp::create(b, loc, type, all);
  return hasResult ? call.getResult() : Value();
}

static Value widen(OpBuilder &b, Location loc, Value value) {
  return LLVM::ZExtOp::create(b, loc, b.getI64Type(), value);
}

Value ThreadCode::threadIndex(OpBuilder &b, Location loc) {
  return widen(b, loc,
               replays
                   ? callHook(b, loc, ThreadIndex, {}, true)
                   : callIntrinsic(b, loc, "llvm.nvvm.read.ptx.sreg.tid.x", b.getI32Type(), {}));
}

Value ThreadCode::blockIndex(OpBuilder &b, Location loc) {
  return widen(b, loc,
               replays
                   ? callHook(b, loc, BlockIndex, {}, true)
                   : callIntrinsic(b, loc, "llvm.nvvm.read.ptx.sreg.ctaid.x", b.getI32Type(), {}));
}

void ThreadCode::barrier(OpBuilder &b, Location loc) {
  if (replays)
    callHook(b, loc, Barrier, {}, false);
  else
    callIntrinsic(b, loc, "llvm.nvvm.barrier.cta.sync.aligned.all", {}, constant32(b, loc, 0));
}

Value ThreadCode::shuffleXor(OpBuilder &b, Location loc, Value value, unsigned mask) {
  Value number = constant32(b, loc, mask);
  if (replays)
    return callHook(b, loc, ShuffleXor, {value, number}, true);
  return callIntrinsic(
      b, loc, "llvm.nvvm.shfl.sync.bfly.i32", b.getI32Type(),
      {constant32(b, loc, -1), value, number, constant32(b, loc, kWarpThreads - 1)});
}

Value ThreadCode::shared(OpBuilder &b, Location loc, ModuleOp module, StringRef name, Type element,
                         int64_t count) const {
  OpBuilder top = OpBuilder::atBlockBegin(module.getBody());
  auto type = LLVM::LLVMArrayType::get(element, count);
  constexpr unsigned kSharedSpace = 3;
  auto global =
      LLVM::GlobalOp::create(top, loc, type, /*isConstant=*/false, LLVM::Linkage::Internal, name,
                             Attribute(), 16, replays ? 0 : kSharedSpace, /*dsoLocal=*/false,
                             /*threadLocal=*/replays);
  Block *block = top.createBlock(&global.getInitializerRegion());
  top.setInsertionPointToStart(block);
  Value initial = replays ? LLVM::ZeroOp::create(top, loc, type).getResult()
                          : LLVM::PoisonOp::create(top, loc, type).getResult();
  LLVM::ReturnOp::create(top, loc, initial);
  Value address = LLVM::AddressOfOp::create(b, loc, global);
  return replays ? address : LLVM::AddrSpaceCastOp::create(b, loc, pointerType(b), address);
}
