// Fuses bias gradients into the matmuls that read the same operand.
#include "FuseSums.h"
#include "AsyncCollectives.h"
#include "ClassBuffers.h"
#include "FuseActivation.h"
#include "Fused.h"
#include "lib/IR/Collectives.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

/// Returns the summed value before it is widened to f32. Widening does not change the value.
static Value getSummed(ps::ReduceOp reduce) {
  auto convert = reduce.getOperand().getDefiningOp<ps::ConvertOp>();
  if (!convert)
    return reduce.getOperand();
  Type from = getElementTypeOrSelf(convert.getOperand().getType());
  bool isExact = getElementTypeOrSelf(reduce.getOperand().getType()).isF32() &&
                 (from.isF16() || from.isBF16());
  return isExact ? convert.getOperand() : reduce.getOperand();
}

/// Returns true if `reduce` sums operand `i` of a contraction over the contracted dims.
static bool sumsOperand(ps::ContractOp contract, unsigned i, ps::ReduceOp reduce) {
  ArrayRef<int64_t> labels = i == 0 ? contract.getLhsLabels() : contract.getRhsLabels();
  SmallVector<int64_t> kept;
  for (auto [dim, label] : llvm::enumerate(labels)) {
    bool isContracted = !llvm::is_contained(contract.getResultLabels(), label);
    if (isContracted != llvm::is_contained(reduce.getDims(), int64_t(dim)))
      return false;
    if (!isContracted)
      kept.push_back(label);
  }
  return kept == contract.getFreeLabels(i);
}

/// Returns true if a matmul can compute a bias gradient and does not compute one yet. Returns false
/// if the first user of the matmul is a collective: the matmul may then be split into chunks, which
/// cannot compute bias gradients.
static bool mayComputeBiasGradient(ps::ContractOp contract, ps::ReduceOp reduce) {
  Type element = contract.getType().getElementType();
  size_t free = contract.getFreeLabels(0).size() + contract.getFreeLabels(1).size();
  auto hasElements = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getNumElements() > 0;
  };
  Operation *user = findFirstUser(contract.getResult());
  return !contract.getSums() && !contract.getBias() && !contract.isOfFloat8() &&
         !contract.hasActivation() && element.isF32() &&
         getElementTypeOrSelf(reduce.getType()) == element &&
         free == contract.getResultLabels().size() && contract.getLhs() != contract.getRhs() &&
         hasElements(contract.getLhs()) && hasElements(contract.getRhs()) &&
         !(user && ir::isCollective(user));
}

/// Returns the op at whose position the fused matmul can be built: `contract` or `reduce`. The
/// position must be after the operands of the matmul, and before the users of both results. Returns
/// null if neither position is possible.
static Operation *findPosition(ps::ContractOp contract, ps::ReduceOp reduce) {
  if (contract->isBeforeInBlock(reduce))
    return contract;
  bool isAvailable = llvm::all_of(contract->getOperands(), [&](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return !producer || producer->isBeforeInBlock(reduce);
  });
  bool isLate = llvm::all_of(reduce->getUsers(),
                             [&](Operation *user) { return contract->isBeforeInBlock(user); });
  return isAvailable ? reduce.getOperation() : isLate ? contract.getOperation() : nullptr;
}

static void fuse(ps::ContractOp contract, unsigned i, ps::ReduceOp reduce, Operation *position) {
  OpBuilder b(position);
  auto fused = ps::ContractOp::create(b, contract.getLoc(), contract.getType(), reduce.getType(),
                                      contract.getLhs(), contract.getRhs(), /*bias=*/Value(),
                                      /*lhs_scale=*/Value(), /*rhs_scale=*/Value(), /*aux=*/Value(),
                                      contract.getLhsLabelsAttr(), contract.getRhsLabelsAttr(),
                                      contract.getResultLabelsAttr(), b.getI64IntegerAttr(i),
                                      /*gelu=*/UnitAttr());
  ps::copyMarks(contract, fused);
  contract.getResult().replaceAllUsesWith(fused.getResult());
  reduce.getResult().replaceAllUsesWith(fused.getSums());
  contract.erase();
  reduce.erase();
}

SmallVector<OpOperand *> fusion::findMatmulsWithSum(ps::ReduceOp reduce, bool activations) {
  SmallVector<OpOperand *> found;
  Value summed = getSummed(reduce);
  auto grad = activations ? getRoot(summed).getDefiningOp<ps::GeluGradOp>() : ps::GeluGradOp();
  bool isOfMatmul = grad && findMatmul(grad);
  if (reduce.getKind() != ps::ReductionKind::Sum || !(isInMemory(summed) || isOfMatmul) ||
      cast<RankedTensorType>(reduce.getType()).getNumElements() < 2)
    return found;
  for (OpOperand &use : summed.getUses()) {
    auto contract = dyn_cast<ps::ContractOp>(use.getOwner());
    if (contract && contract->getBlock() == reduce->getBlock() &&
        mayComputeBiasGradient(contract, reduce) &&
        sumsOperand(contract, use.getOperandNumber(), reduce))
      found.push_back(&use);
  }
  return found;
}

void fusion::fuseSums(Block &block) {
  for (auto reduce : llvm::make_early_inc_range(block.getOps<ps::ReduceOp>()))
    for (OpOperand *use : findMatmulsWithSum(reduce)) {
      auto contract = cast<ps::ContractOp>(use->getOwner());
      if (Operation *position = findPosition(contract, reduce)) {
        fuse(contract, use->getOperandNumber(), reduce, position);
        break;
      }
    }
}
