// Fuses bias additions into matmuls.
#include "FuseBias.h"
#include "Views.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

/// Returns the tensor that `value` broadcasts over leading dims, or null. Looks through a
/// conversion of the broadcast.
static Value findBias(Value value) {
  if (auto convert = value.getDefiningOp<ps::ConvertOp>())
    value = convert.getOperand();
  auto broadcast = value.getDefiningOp<ps::BroadcastOp>();
  if (!broadcast)
    return {};
  int64_t rows = cast<RankedTensorType>(broadcast.getResult().getType()).getRank() -
                 int64_t(broadcast.getDims().size());
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    if (dim != rows + int64_t(i))
      return {};
  return broadcast.getOperand();
}

/// Returns true if matmuls of these types have a bias epilogue. Matmuls of 8-bit floats with f32
/// results are excluded, because their biases would have to be 16-bit.
static bool hasBiasedMatmuls(ps::ContractOp contract) {
  Type element = contract.getType().getElementType();
  bool isNarrow = element.isF16() || element.isBF16();
  if (contract.isOfFloat8())
    return isNarrow;
  return element == getElementTypeOrSelf(contract.getLhs().getType()) &&
         (element.isF32() || isNarrow);
}

/// Returns the contraction that can perform the addition `add` of `bias`; null if there is none.
/// `broadcast` is the broadcast bias. Excludes a bias with one element, because its shape does
/// not show whether the bias is added along the rows or the columns of the matmul.
static ps::ContractOp findMatmul(ps::AddOp add, Value broadcast, Value bias) {
  Value other = add.getLhs() == broadcast ? add.getRhs() : add.getLhs();
  auto contract = other.getDefiningOp<ps::ContractOp>();
  if (!contract || contract.getBias() || contract.getSums() || !other.hasOneUse() ||
      !hasBiasedMatmuls(contract))
    return {};
  bool isPlain = countElements(bias) > 1 && countElements(contract.getLhs()) > 0 &&
                 countElements(contract.getRhs()) > 0;
  bool fits = contract.isBiasable(cast<RankedTensorType>(bias.getType()).getRank());
  return isPlain && fits ? contract : ps::ContractOp();
}

/// Returns the bias in the type of the matmul's result.
static Value makeBias(OpBuilder &b, ps::ContractOp contract, Value bias) {
  Type element = getElementTypeOrSelf(contract.getResult().getType());
  auto type = cast<RankedTensorType>(bias.getType());
  if (type.getElementType() == element)
    return bias;
  auto convert = ps::ConvertOp::create(b, contract.getLoc(), type.clone(element), bias);
  ps::copyMarks(contract, convert);
  return convert.getResult();
}

static bool tryToFuse(ps::AddOp add, Value broadcast) {
  Value bias = findBias(broadcast);
  ps::ContractOp contract = bias ? findMatmul(add, broadcast, bias) : ps::ContractOp();
  if (!contract)
    return false;
  OpBuilder b(add); // after both operands
  auto biased = ps::ContractOp::create(b, contract.getLoc(), contract, makeBias(b, contract, bias));
  ps::copyMarks(contract, biased);
  add.getResult().replaceAllUsesWith(biased.getResult());
  add.erase();
  contract.erase();
  return true;
}

void fusion::fuseBiases(Block &block) {
  for (auto add : llvm::make_early_inc_range(block.getOps<ps::AddOp>()))
    if (!tryToFuse(add, add.getLhs()))
      tryToFuse(add, add.getRhs());
}
