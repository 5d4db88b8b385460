// Which losses are a sum divided by a count.
#include "LossForm.h"
#include "Symbols.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <cmath>

using namespace mlir;
using namespace parashard;
using namespace parashard::ps;

/// The value of a constant splat scalar.
static std::optional<double> getConstant(Value value) {
  auto op = value.getDefiningOp<ConstantOp>();
  if (!op)
    return std::nullopt;
  Tensor tensor = Tensor::fromAttr(op.getValue());
  return tensor.size() == 1 ? std::optional(tensor.get(0)) : std::nullopt;
}

/// True when no op that the value is computed from reads a variable.
static bool isIndependentOfVariables(Value value) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  llvm::SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    if (isa<ReadOp>(op))
      return false;
    todo.append(op->operand_begin(), op->operand_end());
  }
  return true;
}

/// True for a sum over elements, perhaps scaled by a constant, negated or converted.
static bool isSum(Value value) {
  if (auto op = value.getDefiningOp<ReduceOp>())
    return op.getKind() == ReductionKind::Sum;
  if (Operation *op = value.getDefiningOp()) {
    if (isa<ConvertOp, NegOp, ReshapeOp>(op))
      return isSum(op->getOperand(0));
    if (isa<AddOp>(op))
      return isSum(op->getOperand(0)) && isSum(op->getOperand(1));
    if (isa<MulOp>(op))
      return (getConstant(op->getOperand(0)) && isSum(op->getOperand(1))) ||
             (getConstant(op->getOperand(1)) && isSum(op->getOperand(0)));
  }
  return false;
}

/// True when some op that the value is computed from has an argument of its function.
static bool dependsOnInputs(Value value) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  llvm::SmallVector<Value> todo{value};
  while (!todo.empty()) {
    Value next = todo.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op)
      return true;
    if (seen.insert(op).second)
      todo.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

bool parashard::isDividedByCount(Value loss) {
  llvm::SmallPtrSet<Operation *, 16> seen;
  llvm::SmallVector<Value> todo{loss};
  while (!todo.empty()) {
    Value value = todo.pop_back_val();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    Operation *op = value.getDefiningOp();
    if (!type || type.getNumElements() != 1 || !op || !seen.insert(op).second)
      continue;
    if (auto div = dyn_cast<DivOp>(op); div && dependsOnInputs(div.getRhs()))
      return true;
    todo.append(op->operand_begin(), op->operand_end());
  }
  return false;
}

/// 1 / factor, made a whole number where it is one but for rounding.
static double invert(double factor) {
  double count = 1 / factor, whole = std::round(count);
  return std::abs(count - whole) < 1e-6 * std::abs(count) ? whole : count;
}

static std::optional<LossForm> matchProduct(OpBuilder &builder, MulOp op) {
  for (auto [value, other] :
       {std::pair<Value, Value>(op.getLhs(), op.getRhs()), {op.getRhs(), op.getLhs()}}) {
    auto factor = getConstant(other);
    if (!factor)
      continue;
    if (auto inner = findLossForm(builder, value))
      return LossForm{MulOp::create(builder, op.getLoc(), op.getType(), inner->sum, other),
                      inner->count};
    if (*factor > 0 && isSum(value))
      return LossForm{value, makeConstant(builder, op.getLoc(),
                                          cast<RankedTensorType>(op.getType()), invert(*factor))};
  }
  return std::nullopt;
}

std::optional<LossForm> parashard::findLossForm(OpBuilder &builder, Value loss) {
  Operation *op = loss.getDefiningOp();
  if (auto div = dyn_cast_or_null<DivOp>(op))
    if (isSum(div.getLhs()) && isIndependentOfVariables(div.getRhs()))
      return LossForm{div.getLhs(), div.getRhs()};
  if (auto mul = dyn_cast_or_null<MulOp>(op))
    return matchProduct(builder, mul);
  if (isa_and_nonnull<ConvertOp, ReshapeOp>(op)) {
    auto inner = findLossForm(builder, op->getOperand(0));
    if (!inner)
      return std::nullopt;
    for (Value *part : {&inner->sum, &inner->count}) {
      IRMapping mapping;
      mapping.map(op->getOperand(0), *part);
      *part = builder.clone(*op, mapping)->getResult(0);
    }
    return inner;
  }
  return std::nullopt;
}
