// Propagates constants from ignored labels through the ops of a block.
#include "IgnoredRows.h"
#include "dialects/ps/Ps.h"
#include "parashard/Import.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::training;
using namespace parashard::ps;

IgnoredRows::IgnoredRows(Block &block) {
  auto function = cast<func::FuncOp>(block.getParentOp());
  for (BlockArgument argument : block.getArguments()) {
    auto label = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kIgnoreMark);
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (label && type)
      splats[argument] = DenseElementsAttr::get(
          type, Attribute(IntegerAttr::get(type.getElementType(), label.getInt())));
  }
  for (Operation &op : block.without_terminator())
    visit(&op);
}

bool IgnoredRows::isZero(Value value) const {
  DenseElementsAttr splat = splats.lookup(value);
  if (!splat)
    return false;
  if (isa<FloatType>(splat.getElementType()))
    return splat.getSplatValue<APFloat>().isZero();
  return splat.getSplatValue<APInt>().isZero();
}

void IgnoredRows::setZero(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  splats[value] =
      DenseElementsAttr::get(type, Builder(type.getContext()).getZeroAttr(type.getElementType()));
}

void IgnoredRows::visit(Operation *op) {
  if (auto loss = dyn_cast<CrossEntropyOp>(op)) {
    DenseElementsAttr label = splats.lookup(loss.getLabels());
    if (label && label.getSplatValue<APInt>().getSExtValue() == int64_t(loss.getIgnoreIndex()))
      setZero(loss.getLoss());
  } else if (op->getNumResults() == 1 && !fold(op) && isLinearInZeros(op)) {
    setZero(op->getResult(0));
  }
}

bool IgnoredRows::fold(Operation *op) {
  llvm::SmallVector<Attribute> operands;
  for (Value operand : op->getOperands())
    operands.push_back(splats.lookup(operand));
  llvm::SmallVector<OpFoldResult> results;
  if (failed(op->fold(operands, results)) || results.size() != 1)
    return false;
  auto attribute = dyn_cast<Attribute>(results.front());
  auto splat = attribute ? dyn_cast<DenseElementsAttr>(attribute)
                         : splats.lookup(cast<Value>(results.front()));
  if (!splat || !splat.isSplat() || splat.getType() != op->getResult(0).getType())
    return false;
  splats[op->getResult(0)] = splat;
  return true;
}

bool IgnoredRows::isLinearInZeros(Operation *op) const {
  auto ruled = dyn_cast<ShardingOpInterface>(op);
  return ruled && llvm::any_of(ruled.getShardingRule().linear, [&](llvm::ArrayRef<unsigned> group) {
           return llvm::all_of(group,
                               [&](unsigned operand) { return isZero(op->getOperand(operand)); });
         });
}
