// Implements helpers that the recognition passes share.
#include "lib/Import/Recognize/Matching.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace parashard::import::recognize {

std::optional<double> getSplat(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (isa<ps::BroadcastOp, ps::ReshapeOp, ps::TransposeOp, ps::SliceOp>(op))
    return getSplat(op->getOperand(0));
  if (auto convert = dyn_cast<ps::ConvertOp>(op)) {
    bool floats = isa<FloatType>(getType(value).getElementType());
    return floats ? getSplat(convert.getOperand()) : std::nullopt;
  }
  auto constant = dyn_cast<ps::ConstantOp>(op);
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  APInt integer = elements.getSplatValue<APInt>();
  return integer.getBitWidth() == 1 ? double(integer.getZExtValue())
                                    : double(integer.getSExtValue());
}

void eraseDead(Operation *op) {
  llvm::SmallSetVector<Operation *, 8> todo;
  todo.insert(op);
  while (!todo.empty()) {
    Operation *next = todo.pop_back_val();
    if (!isOpTriviallyDead(next))
      continue;
    for (Value operand : next->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        todo.insert(producer);
    next->erase();
  }
}

int64_t LabeledValue::getSize(int64_t label) const {
  const int64_t *at = llvm::find(labels, label);
  return at == labels.end() ? -1 : getShape(value)[at - labels.begin()];
}

void LabeledValue::absorbTransposes() {
  while (auto transpose = value.getDefiningOp<ps::TransposeOp>()) {
    SmallVector<int64_t> before(labels.size());
    for (auto [i, from] : llvm::enumerate(transpose.getPermutation()))
      before[from] = labels[i];
    labels = before;
    value = transpose.getOperand();
  }
}

Value LabeledValue::arrange(OpBuilder &b, Location loc, ArrayRef<int64_t> order) const {
  SmallVector<int64_t> permutation;
  for (int64_t label : order) {
    auto at = llvm::find(labels, label);
    if (at == labels.end())
      return {};
    permutation.push_back(at - labels.begin());
  }
  if (permutation.size() != labels.size())
    return {};
  return llvm::is_sorted(permutation) ? value
                                      : Value(ps::TransposeOp::create(b, loc, value, permutation));
}

} // namespace parashard::import::recognize
