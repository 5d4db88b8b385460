// Implements ps-transpose-attention: lets attention and its gradient write [B, T, H, D].
#include "dialects/ps/Ps.h"
#include "mlir/Pass/Pass.h"
#include "parashard/Fusion.h"

namespace parashard::fusion {
#define GEN_PASS_DEF_TRANSPOSEATTENTIONPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace parashard::fusion

using namespace mlir;
using namespace parashard;

/// Swaps heads and positions: [B, H, T, D] to [B, T, H, D], and back.
static constexpr int64_t kSwap[] = {0, 2, 1, 3};

static bool isSwap(Operation *op) {
  auto transpose = dyn_cast<ps::TransposeOp>(op);
  return transpose && transpose.getPermutation() == ArrayRef<int64_t>(kSwap);
}

static bool isSwapped(Value result) { return llvm::any_of(result.getUsers(), isSwap); }

static RankedTensorType swap(RankedTensorType type) {
  ArrayRef<int64_t> shape = type.getShape();
  return type.clone({shape[0], shape[2], shape[1], shape[3]});
}

/// Swaps dims in the marks of a result: its sharding and its global type, with which the evaluator
/// finds padding.
static void swapMarks(OpResult result) {
  if (ps::ShardingAttr sharding = ps::getSharding(result)) {
    auto dims = llvm::to_vector(sharding.getDims());
    std::swap(dims[1], dims[2]);
    ps::setSharding(result, ps::ShardingAttr::get(sharding.getContext(), sharding.getMesh(), dims,
                                                  sharding.getPartial()));
  }
  Operation *op = result.getOwner();
  auto globals = op->getAttrOfType<ArrayAttr>(kGlobalMark);
  auto global = globals ? dyn_cast<TypeAttr>(globals[result.getResultNumber()]) : TypeAttr();
  if (!global)
    return;
  auto all = llvm::to_vector(globals);
  all[result.getResultNumber()] = TypeAttr::get(swap(cast<RankedTensorType>(global.getValue())));
  op->setAttr(kGlobalMark, ArrayAttr::get(op->getContext(), all));
}

/// Makes `result` [B, T, H, D]. Transposes of the result become the result. Other users read a
/// transpose of it.
static void swap(Operation *op, Value result) {
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : result.getUses())
    uses.push_back(&use);
  result.setType(swap(cast<RankedTensorType>(result.getType())));
  swapMarks(cast<OpResult>(result));
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  ps::TransposeOp back;
  for (OpOperand *use : uses) {
    if (isSwap(use->getOwner())) {
      use->getOwner()->getResult(0).replaceAllUsesWith(result);
      use->getOwner()->erase();
      continue;
    }
    if (!back) {
      back = ps::TransposeOp::create(b, op->getLoc(), result, kSwap);
      ps::copyMarks(op, back);
    }
    use->set(back.getResult());
  }
}

/// Transposes the results of an op if a user transposes one of them.
template <typename Op> static void transposeResults(Op op, ValueRange results) {
  if (op.getTransposed() || !llvm::any_of(results, isSwapped))
    return;
  op.setTransposed(true);
  for (Value result : results)
    swap(op, result);
}

namespace {
struct TransposeAttentionPass : fusion::impl::TransposeAttentionPassBase<TransposeAttentionPass> {
  using TransposeAttentionPassBase::TransposeAttentionPassBase;
  void runOnOperation() override {
    SmallVector<Operation *> attentions; // collected first, because transposes are erased
    getOperation().walk([&](Operation *op) {
      if (isa<ps::AttentionOp, ps::AttentionGradOp>(op))
        attentions.push_back(op);
    });
    for (Operation *op : attentions) {
      if (auto attention = dyn_cast<ps::AttentionOp>(op))
        transposeResults(attention, attention.getResult());
      else
        transposeResults(cast<ps::AttentionGradOp>(op), op->getResults());
    }
  }
};
} // namespace
