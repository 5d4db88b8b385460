// Fuses dequantization into matmuls of 8-bit floats.
#include "FuseFloat8.h"
#include "dialects/ps/Float8.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;

/// Returns true if the contraction can multiply operands of 8 bits: none of the exceptions in
/// `fuseFloat8` applies to it.
static bool canMultiply8Bits(ps::ContractOp contract, const ps::Quantized &lhs,
                             const ps::Quantized &rhs) {
  constexpr int64_t kMultiple = 16;
  auto isE5M2 = [](const ps::Quantized &operand) {
    return isa<Float8E5M2Type>(getElementTypeOrSelf(operand.bits.getType()));
  };
  if ((isE5M2(lhs) && isE5M2(rhs)) || contract.getSums() || contract.getBias())
    return false;
  size_t free = contract.getFreeLabels(0).size() + contract.getFreeLabels(1).size();
  if (contract.getResultLabels().size() > free + 1)
    return false;
  auto shape = cast<RankedTensorType>(contract.getLhs().getType()).getShape();
  int64_t inner = 1;
  for (auto [label, size] : llvm::zip_equal(contract.getLhsLabels(), shape))
    if (!llvm::is_contained(contract.getResultLabels(), label))
      inner *= size;
  auto countFree = [&](unsigned operand) {
    SmallVector<int64_t> free = contract.getFreeLabels(operand);
    int64_t count = 1;
    for (auto [label, size] :
         llvm::zip_equal(contract.getResultLabels(), contract.getType().getShape()))
      count *= llvm::is_contained(free, label) ? size : 1;
    return count;
  };
  return llvm::all_of(std::array{inner, countFree(0), countFree(1)},
                      [](int64_t count) { return count > 0 && count % kMultiple == 0; });
}

static void fuse(ps::ContractOp contract, const ps::Quantized &lhs, const ps::Quantized &rhs) {
  OpBuilder b(contract);
  auto fused = cast<ps::ContractOp>(b.clone(*contract));
  fused.getLhsMutable().assign(lhs.bits);
  fused.getRhsMutable().assign(rhs.bits);
  fused.getLhsScaleMutable().assign(lhs.scale);
  fused.getRhsScaleMutable().assign(rhs.scale);
  contract.getResult().replaceAllUsesWith(fused.getResult());
  SmallVector<Value> operands(contract->getOperands());
  contract.erase();
  for (Value operand : llvm::SmallSetVector<Value, 2>(operands.begin(), operands.end()))
    if (operand.use_empty())
      operand.getDefiningOp()->erase();
}

void fusion::fuseFloat8(Block &block) {
  for (auto contract : llvm::make_early_inc_range(block.getOps<ps::ContractOp>())) {
    auto lhs = ps::findQuantized(contract.getLhs()), rhs = ps::findQuantized(contract.getRhs());
    if (lhs && rhs && canMultiply8Bits(contract, *lhs, *rhs))
      fuse(contract, *lhs, *rhs);
  }
}
