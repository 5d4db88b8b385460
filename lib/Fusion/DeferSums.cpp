// Implements ps-defer-sums: moves bias gradients to the phase of the weight-gradient matmuls that
// read the same cotangents.
#include "FuseSums.h"
#include "lib/IR/Symbols.h"
#include "mlir/Pass/Pass.h"
#include "parashard/Fusion.h"

namespace parashard::fusion {
#define GEN_PASS_DEF_DEFERSUMSPASS
#include "lib/Fusion/Passes.h.inc"
} // namespace parashard::fusion

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

static bool isIn(Operation *op, ps::Phase phase) { return ir::getPhase(op) == phase; }

/// Returns true if the sum is only accumulated, and if a matmul of the same segment in the phase
/// `backward_weight` can compute the sum.
static bool canDefer(ps::ReduceOp reduce, bool activations) {
  if (!isIn(reduce, ps::Phase::BackwardInput) || reduce->use_empty() ||
      !llvm::all_of(reduce->getUsers(),
                    [](Operation *user) { return isa<ps::AccumulateOp>(user); }))
    return false;
  return llvm::any_of(findMatmulsWithSum(reduce, activations), [&](OpOperand *use) {
    Operation *matmul = use->getOwner();
    return isIn(matmul, ps::Phase::BackwardWeight) &&
           matmul->getAttr(kSegmentMark) == reduce->getAttr(kSegmentMark);
  });
}

static void defer(ps::ReduceOp reduce) {
  auto phase = ps::PhaseAttr::get(reduce.getContext(), ps::Phase::BackwardWeight);
  // Clones the conversion that widens the cotangent, because it may have other users in the old
  // phase.
  if (auto convert = reduce.getOperand().getDefiningOp<ps::ConvertOp>()) {
    OpBuilder b(reduce);
    Operation *own = b.clone(*convert);
    own->setAttr(kPhaseMark, phase);
    reduce->setOperand(0, own->getResult(0));
    if (convert.use_empty())
      convert.erase();
  }
  reduce->setAttr(kPhaseMark, phase);
  for (Operation *user : reduce->getUsers())
    user->setAttr(kPhaseMark, phase);
}

namespace {
struct DeferSumsPass : fusion::impl::DeferSumsPassBase<DeferSumsPass> {
  using DeferSumsPassBase::DeferSumsPassBase;
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        for (auto reduce : function.getBody().front().getOps<ps::ReduceOp>())
          if (canDefer(reduce, activations))
            defer(reduce);
  }
};
} // namespace
