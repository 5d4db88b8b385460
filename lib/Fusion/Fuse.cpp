// Implements ps-fuse: prepares class functions, groups ops into kernels, and records the memory
// that kernels need.
#include "FoldEmpty.h"
#include "FuseActivation.h"
#include "FuseBias.h"
#include "FuseFloat8.h"
#include "FuseSums.h"
#include "Groups.h"
#include "OrderContraction.h"
#include "dialects/ps/Refusal.h"
#include "dialects/rank/Rank.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/Pass/Pass.h"
#include "parashard/Fusion.h"

namespace parashard::fusion {
#define GEN_PASS_DEF_FUSEPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace parashard::fusion

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

//===----------------------------------------------------------------------===//
// Before grouping
//===----------------------------------------------------------------------===//

static bool isSameVariable(ps::ReadOp read, ps::WriteOp write) {
  return read.getRef() == write.getRef() && read.getVariableAttr() == write.getVariableAttr();
}

/// Returns the value of the variable before the write: an earlier read in the block, or a new read.
static Value readBefore(ps::WriteOp write) {
  for (auto read : write->getBlock()->getOps<ps::ReadOp>())
    if (isSameVariable(read, write) && read->isBeforeInBlock(write))
      return read.getResult();
  OpBuilder b(write);
  OperationState state(write.getLoc(), ps::ReadOp::getOperationName());
  if (write.getRef())
    state.addOperands(write.getRef());
  if (auto variable = write.getVariableAttr())
    state.addAttribute("variable", variable);
  state.addTypes(write.getValue().getType());
  Operation *read = b.create(state);
  ps::copyMarks(write, read);
  return read->getResult(0);
}

/// Turns a conditional write into a write of a select between the new and the old value.
static void selectInsteadOfCondition(ps::WriteOp write) {
  Value condition = write.getCondition();
  if (!condition)
    return;
  OpBuilder b(write);
  Location loc = write.getLoc();
  Value value = write.getValue();
  auto type = cast<RankedTensorType>(value.getType());
  auto bools = RankedTensorType::get(type.getShape(), b.getI1Type());
  auto mark = [&](Operation *op) {
    ps::copyMarks(write, op);
    return op->getResult(0);
  };
  Value old = readBefore(write);
  Value broadcast = condition;
  if (type.getRank() != 0)
    broadcast = mark(ps::BroadcastOp::create(b, loc, bools, condition, b.getDenseI64ArrayAttr({})));
  Value chosen = mark(ps::SelectOp::create(b, loc, type, broadcast, value, old));
  write.getValueMutable().assign(chosen);
  write.getConditionMutable().clear();
}

/// Splits a reduction over the last dims and other dims into two reductions: first over the last
/// dims, then over the other dims.
static void splitByDims(ps::ReduceOp reduce) {
  auto type = cast<RankedTensorType>(reduce.getOperand().getType());
  SmallVector<int64_t> trailing, remaining;
  int64_t first = type.getRank();
  while (first > 0 && llvm::is_contained(reduce.getDims(), first - 1))
    trailing.insert(trailing.begin(), --first);
  for (int64_t dim : reduce.getDims())
    if (dim < first)
      remaining.push_back(dim);
  if (trailing.empty() || remaining.empty())
    return;
  OpBuilder b(reduce);
  auto inner =
      ps::ReduceOp::create(b, reduce.getLoc(), reduce.getKind(), reduce.getOperand(), trailing);
  ps::copyMarks(reduce, inner);
  auto outer =
      ps::ReduceOp::create(b, reduce.getLoc(), reduce.getKind(), inner.getResult(), remaining);
  ps::copyMarks(reduce, outer);
  reduce.getResult().replaceAllUsesWith(outer.getResult());
  reduce.erase();
}

/// Returns the number of parts, at most `most`, into which the last dims `sizes` are split. Each
/// part has at least `least` elements. The parts divide the leading dims of `sizes` evenly, so that
/// the reshape is a view. Example: sizes [8, 4096], most 64 and least 2048 give 16.
static int64_t chooseParts(ArrayRef<int64_t> sizes, int64_t most, int64_t least) {
  int64_t parts = 1, whole = 1;
  for (int64_t size : sizes)
    whole *= size;
  for (int64_t size : sizes) {
    int64_t divisor = std::min(size, most / parts);
    while (size % divisor != 0 || whole / (parts * divisor) < least)
      if (--divisor <= 1)
        break;
    parts *= std::max<int64_t>(1, divisor);
    if (divisor != size)
      break;
  }
  return parts;
}

/// Splits a long reduction with few results in two: one reduction over the elements of each part,
/// then one over the parts. A single reduction would use only one thread block per result. Example:
/// the sum of tensor<1048576xf32> with 64 parts sums tensor<64x16384xf32> over dim 1, then
/// tensor<64xf32>.
static void splitLongReduction(ps::ReduceOp reduce, int64_t maxChunks) {
  constexpr int64_t kFewResults = 64, kLong = 1 << 15, kMin = 1 << 11;
  auto type = cast<RankedTensorType>(reduce.getOperand().getType());
  auto result = cast<RankedTensorType>(reduce.getType());
  int64_t first = result.getRank(), results = result.getNumElements();
  bool isTrailing = llvm::equal(reduce.getDims(), llvm::seq(first, type.getRank()));
  // Sums of 16-bit floats must be rounded only once.
  bool isNarrow = isa<FloatType>(type.getElementType()) && type.getElementTypeBitWidth() < 32;
  if (!isTrailing || isNarrow || results > kFewResults || type.getNumElements() < results * kLong)
    return;
  int64_t parts = chooseParts(type.getShape().drop_front(first), maxChunks / results, kMin);
  if (parts == 1)
    return;
  OpBuilder b(reduce);
  SmallVector<int64_t> shape(result.getShape());
  shape.append({parts, type.getNumElements() / (results * parts)});
  auto keepMarks = [&](auto op) {
    ps::copyMarks(reduce, op);
    return op.getResult();
  };
  Value cut =
      keepMarks(ps::ReshapeOp::create(b, reduce.getLoc(), type.clone(shape), reduce.getOperand()));
  Value inner = keepMarks(
      ps::ReduceOp::create(b, reduce.getLoc(), reduce.getKind(), cut, ArrayRef{first + 1}));
  reduce.replaceAllUsesWith(keepMarks(
      ps::ReduceOp::create(b, reduce.getLoc(), reduce.getKind(), inner, ArrayRef{first})));
  reduce.erase();
}

/// Returns true if the op that produces `value` can itself add the value to a variable's buffer.
static bool canAccumulate(Value value) {
  if (auto fused = value.getDefiningOp<ps::FusedOp>()) // a pad zeroes its result first
    if (isa_and_nonnull<ps::PadOp>(
            fused.getBody().front().getTerminator()->getOperand(0).getDefiningOp()))
      return false;
  if (auto contract = value.getDefiningOp<ps::ContractOp>())
    return value == contract.getResult() &&
           value.hasOneUse() && // other uses need the result without the old value
           !contract.hasActivation();
  return isa_and_nonnull<ps::FusedOp, ps::EmbeddingGradOp>(value.getDefiningOp()) &&
         value.hasOneUse();
}

/// Inserts a kernel that copies a value and accumulates it, if the producer cannot accumulate.
static void copyBeforeAccumulate(ps::AccumulateOp accumulate) {
  Value value = accumulate.getValue();
  if (canAccumulate(value))
    return;
  OpBuilder b(accumulate);
  auto fused =
      ps::FusedOp::create(b, accumulate.getLoc(), TypeRange{value.getType()}, ValueRange{value});
  ps::copyMarks(accumulate, fused);
  Block *body = b.createBlock(&fused.getBody());
  ps::YieldOp::create(b, accumulate.getLoc(), body->addArgument(value.getType(), value.getLoc()));
  accumulate.getValueMutable().assign(fused.getResult(0));
}

//===----------------------------------------------------------------------===//
// After grouping
//===----------------------------------------------------------------------===//

static bool accumulates(Value result) {
  return result.hasOneUse() && isa<ps::AccumulateOp>(*result.user_begin());
}

static LogicalResult markWorkspace(ps::FusedOp fused, int64_t maxChunks) {
  Operation *yield = fused.getBody().front().getTerminator();
  auto pieces = getPieces(yield->getOperands());
  if (failed(pieces))
    return fused.emitOpError("yields a concat or pad together with other values");
  int64_t bytes = 0;
  for (const Piece &piece : *pieces) {
    IterationSpace space;
    if (failed(space.analyze(getBodyOps(fused), piece.outputs, maxChunks)))
      return fused.emitOpError("cannot be compiled to one kernel: ") << space.getReason();
    for (auto [i, output] : llvm::enumerate(space.getOutputs()))
      if (needsPartials(space, output.value.source, accumulates(fused.getResult(piece.results[i]))))
        bytes += getPartialBytes(space, getElementTypeOrSelf(output.value.source.getType()));
  }
  Builder b(fused.getContext());
  if (bytes > 0)
    fused->setAttr(kWorkspaceMark, b.getI64IntegerAttr(bytes));
  if (bytes > 0 && maxChunks > 0)
    fused->setAttr(kMaxChunksMark, b.getI64IntegerAttr(maxChunks));
  return success();
}

/// Collects the uses of `value` and of its views, except uses by views.
static void collectUsers(Value value, SmallVectorImpl<OpOperand *> &uses) {
  for (OpOperand &use : value.getUses()) {
    if (isView(use.getOwner()))
      collectUsers(use.getOwner()->getResult(0), uses);
    else
      uses.push_back(&use);
  }
}

/// Returns true if `fused` reads each element of its input number `input` only where it writes the
/// same element of result `result`, and writes each element once. (If several threads wrote a
/// scalar, one of them could write it before another has read it.)
static bool readsInPlace(ps::FusedOp fused, unsigned input, unsigned result) {
  Block &body = fused.getBody().front();
  auto pieces = getPieces(body.getTerminator()->getOperands());
  if (failed(pieces) || pieces->size() != 1)
    return false;
  IterationSpace space;
  if (failed(space.analyze(getBodyOps(fused), pieces->front().outputs)))
    return false;
  const Access &out = space.getOutputs()[result].buffer;
  for (auto [size, stride] : llvm::zip_equal(space.getSizes(), out.strides))
    if (size > 1 && stride == 0)
      return false;
  auto same = [&](const Access &in) {
    return in.source != body.getArgument(input) ||
           (in.offset == out.offset && in.strides == out.strides);
  };
  for (Operation *op : space.getComputeOps())
    for (OpOperand &operand : op->getOpOperands())
      if (!same(space.getAccess(operand)))
        return false;
  return llvm::all_of(space.getOutputs(), [&](const Output &output) { return same(output.value); });
}

/// Sets `ps.in_place` on a write whose value can be computed directly in the variable's buffer: all
/// readers of the old value run before, or read the same element in the same kernel.
static void markInPlace(ps::WriteOp write) {
  auto fused = write.getValue().getDefiningOp<ps::FusedOp>();
  if (!fused || !write.getValue().hasOneUse())
    return;
  unsigned result = cast<OpResult>(write.getValue()).getResultNumber();
  for (auto read : write->getBlock()->getOps<ps::ReadOp>()) {
    if (!isSameVariable(read, write))
      continue;
    SmallVector<OpOperand *> uses;
    collectUsers(read.getResult(), uses);
    for (OpOperand *use : uses) {
      Operation *user = use->getOwner();
      if (user == fused ? !readsInPlace(fused, use->getOperandNumber(), result)
                        : !user->isBeforeInBlock(fused))
        return;
      if (user->hasTrait<OpTrait::IsTerminator>())
        return;
    }
  }
  write->setAttr(kInPlaceMark, UnitAttr::get(write.getContext()));
}

namespace {
struct FuseOptions {
  int64_t maxChunks = 0;
  bool biases = false, activations = false, sums = false, float8 = false;
};
} // namespace

static LogicalResult fuse(func::FuncOp function, const FuseOptions &options) {
  Block &block = function.getBody().front();
  for (auto write : llvm::make_early_inc_range(block.getOps<ps::WriteOp>()))
    selectInsteadOfCondition(write);
  if (failed(foldEmpty(block)))
    return failure();
  for (auto reduce : llvm::make_early_inc_range(block.getOps<ps::ReduceOp>()))
    splitByDims(reduce);
  if (options.maxChunks > 0)
    for (auto reduce : llvm::make_early_inc_range(block.getOps<ps::ReduceOp>()))
      splitLongReduction(reduce, options.maxChunks);
  if (options.float8)
    fuseFloat8(block);
  for (auto contract : llvm::make_early_inc_range(block.getOps<ps::ContractOp>()))
    orderContraction(contract);
  if (options.biases)
    fuseBiases(block);
  if (options.activations)
    fuseActivations(block);
  if (options.sums)
    fuseSums(block);
  Groups groups(block);
  if (failed(groups.form()))
    return failure();
  groups.build();
  for (auto accumulate : block.getOps<ps::AccumulateOp>())
    copyBeforeAccumulate(accumulate);
  sortTopologically(&block);
  for (auto fused : block.getOps<ps::FusedOp>())
    if (failed(markWorkspace(fused, options.maxChunks)))
      return failure();
  for (auto write : block.getOps<ps::WriteOp>())
    markInPlace(write);
  return success();
}

namespace {
struct FusePass : fusion::impl::FusePassBase<FusePass> {
  using FusePassBase::FusePassBase;
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal() || !function.getBody().hasOneBlock() ||
          !function->hasAttr(kClassMark))
        continue;
      if (failed(fuse(function, {maxChunks, biases, activations, sums, float8})))
        return signalPassFailure();
    }
    if (activations && !hasActivations())
      ps::warnFlag(getOperation().getLoc(), "matmul-epilogues on")
          << " changes nothing: no matmul result is the input of a tanh-GELU "
             "(fp8 matmuls, and matmuls followed by an all-reduce, are not supported)";
  }

  bool hasActivations() {
    return getOperation()
        .walk([](ps::ContractOp contract) {
          return contract.hasActivation() ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }
};
} // namespace
