// Products of 8-bit floats.
#include "FuseFloat8.h"
#include "Views.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::codegen;

namespace {
/// A tensor in 8 bits, and the number by which it is multiplied.
struct Quantized {
  Value bits, unit;
};
} // namespace

static std::optional<Quantized> findQuantized(Value value) {
  auto dequantize = value.getDefiningOp<ps::DequantizeOp>();
  auto spread =
      dequantize ? dequantize.getUnit().getDefiningOp<ps::BroadcastOp>() : ps::BroadcastOp();
  if (!spread || !spread.getDims().empty())
    return std::nullopt;
  return Quantized{dequantize.getOperand(), spread.getOperand()};
}

/// Whether devices have such products: all that is contracted together, and all that each operand
/// gives to the result, are multiples of 16 places, with one batch dim at most.
static bool isMultiplied(ps::ContractOp contract, const Quantized &lhs, const Quantized &rhs) {
  constexpr int64_t kPlaces = 16;
  auto isE5M2 = [](const Quantized &one) {
    return isa<Float8E5M2Type>(getElementTypeOrSelf(one.bits.getType()));
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
                      [](int64_t count) { return count > 0 && count % kPlaces == 0; });
}

static void fuse(ps::ContractOp contract, const Quantized &lhs, const Quantized &rhs) {
  OpBuilder b(contract);
  auto fused = ps::ContractOp::create(
      b, contract.getLoc(), contract.getType(), /*second=*/Type(), lhs.bits, rhs.bits,
      /*bias=*/Value(), lhs.unit, rhs.unit, /*aux=*/Value(), contract.getLhsLabelsAttr(),
      contract.getRhsLabelsAttr(), contract.getResultLabelsAttr(), /*summed=*/IntegerAttr(),
      /*gelu=*/UnitAttr());
  ps::copyMarks(contract, fused);
  contract.getResult().replaceAllUsesWith(fused.getResult());
  SmallVector<Value> operands(contract->getOperands());
  contract.erase();
  for (Value operand : llvm::SmallSetVector<Value, 2>(operands.begin(), operands.end()))
    if (operand.use_empty())
      operand.getDefiningOp()->erase();
}

void codegen::fuseFloat8(Block &block) {
  for (auto contract : llvm::make_early_inc_range(block.getOps<ps::ContractOp>())) {
    auto lhs = findQuantized(contract.getLhs()), rhs = findQuantized(contract.getRhs());
    if (lhs && rhs && isMultiplied(contract, *lhs, *rhs))
      fuse(contract, *lhs, *rhs);
  }
}
