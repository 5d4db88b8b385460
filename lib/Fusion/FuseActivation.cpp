// Fuses GELUs and their derivatives into matmuls.
#include "FuseActivation.h"
#include "AsyncCollectives.h"
#include "Views.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

/// Looks through reshapes. Example: gives x for reshape(reshape(x)).
static Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ps::ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

/// Returns true if a matmul can have an activation and has none yet. The matmul must have one type
/// (f32, f16 or bf16), no batch dims, no bias gradient and no empty operand.
static bool mayActivate(ps::ContractOp contract) {
  Type element = contract.getType().getElementType();
  size_t free = contract.getFreeLabels(0).size() + contract.getFreeLabels(1).size();
  return !contract.hasActivation() && !contract.getSums() &&
         element == getElementTypeOrSelf(contract.getLhs().getType()) &&
         (element.isF32() || element.isF16() || element.isBF16()) &&
         free == contract.getResultLabels().size() && countElements(contract.getLhs()) > 0 &&
         countElements(contract.getRhs()) > 0;
}

/// Returns `value` in another shape, with a reshape only if the shapes differ.
static Value reshape(OpBuilder &b, Operation *like, Value value, Type type) {
  if (value.getType() == type)
    return value;
  auto result = ps::ReshapeOp::create(b, like->getLoc(), type, value);
  ps::copyMarks(like, result);
  return result.getResult();
}

/// Erases the reshapes that produced `value` if they have no more uses.
static void eraseReshapes(Value value) {
  for (auto reshape = value.getDefiningOp<ps::ReshapeOp>(); reshape && reshape->use_empty();
       reshape = value.getDefiningOp<ps::ReshapeOp>()) {
    value = reshape.getOperand();
    reshape.erase();
  }
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

namespace {
/// Describes how a matmul's result, which is the input of a GELU, is used apart from this GELU.
struct Uses {
  bool areKept = false;          ///< the result is saved for backward, or used in backward
  bool areUsedOtherwise = false; ///< other ops compute with the result
};
} // namespace

static void collectUses(Value sums, ps::GeluOp gelu, Uses &uses) {
  for (OpOperand &use : sums.getUses()) {
    Operation *user = use.getOwner();
    if (isa<ps::ReshapeOp>(user))
      collectUses(user->getResult(0), gelu, uses);
    else if (auto grad = dyn_cast<ps::GeluGradOp>(user);
             user->hasTrait<OpTrait::IsTerminator>() || (grad && use.get() == grad.getOperand()))
      uses.areKept = true;
    else if (user != gelu)
      uses.areUsedOtherwise = true;
  }
}

static void tryToFuse(ps::GeluOp gelu) {
  auto contract = skipReshapes(gelu.getOperand()).getDefiningOp<ps::ContractOp>();
  if (!contract || gelu.getKind() != ps::GeluKind::Tanh || !mayActivate(contract))
    return;
  Uses uses;
  collectUses(contract.getResult(), gelu, uses);
  if (uses.areUsedOtherwise)
    return;
  OpBuilder b(contract);
  auto fused = ps::ContractOp::create(
      b, contract.getLoc(), contract.getType(), uses.areKept ? contract.getType() : Type(),
      contract.getLhs(), contract.getRhs(), contract.getBias(), /*lhs_scale=*/Value(),
      /*rhs_scale=*/Value(), /*aux=*/Value(), contract.getLhsLabelsAttr(),
      contract.getRhsLabelsAttr(), contract.getResultLabelsAttr(),
      /*summed=*/IntegerAttr(), b.getUnitAttr());
  ps::copyMarks(contract, fused);
  gelu.getResult().replaceAllUsesWith(reshape(b, gelu, fused.getResult(), gelu.getType()));
  Value sums = gelu.getOperand();
  gelu.erase();
  eraseReshapes(sums);
  if (uses.areKept)
    contract.getResult().replaceAllUsesWith(fused.getPreActivation());
  contract.erase();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

ps::ContractOp fusion::findMatmul(ps::GeluGradOp grad) {
  Value value = grad.getCotangent();
  for (; value.getDefiningOp<ps::ReshapeOp>(); value = value.getDefiningOp()->getOperand(0))
    if (!value.hasOneUse())
      return {};
  auto contract = value.getDefiningOp<ps::ContractOp>();
  bool fits = contract && value.hasOneUse() && grad.getKind() == ps::GeluKind::Tanh &&
              mayActivate(contract) && !contract.getBias();
  return fits ? contract : ps::ContractOp();
}

static void tryToFuse(ps::GeluGradOp grad) {
  ps::ContractOp contract = findMatmul(grad);
  if (!contract || !isInMemory(grad.getOperand()))
    return;
  OpBuilder b(grad); // after both operands
  auto fused = ps::ContractOp::create(
      b, contract.getLoc(), contract.getType(), /*second=*/Type(), contract.getLhs(),
      contract.getRhs(), /*bias=*/Value(), /*lhs_scale=*/Value(), /*rhs_scale=*/Value(),
      reshape(b, grad, grad.getOperand(), contract.getType()), contract.getLhsLabelsAttr(),
      contract.getRhsLabelsAttr(), contract.getResultLabelsAttr(),
      /*summed=*/IntegerAttr(), /*gelu=*/UnitAttr());
  ps::copyMarks(contract, fused);
  grad.getResult().replaceAllUsesWith(reshape(b, grad, fused.getResult(), grad.getType()));
  Value cotangent = grad.getCotangent();
  grad.erase();
  eraseReshapes(cotangent);
  contract.erase();
}

void fusion::fuseActivations(Block &block) {
  for (auto gelu : llvm::make_early_inc_range(block.getOps<ps::GeluOp>()))
    tryToFuse(gelu);
  for (auto grad : llvm::make_early_inc_range(block.getOps<ps::GeluGradOp>()))
    tryToFuse(grad);
}
