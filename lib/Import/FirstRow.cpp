// Builds one row of values whose rows (along dim 0) are all equal.
#include "lib/Import/FirstRow.h"
#include "dialects/ps/Ps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace parashard::import {

namespace {
/// Maximum number of visited values. Positions and masks are computed by fewer ops.
constexpr unsigned kMaxOps = 64;

class RowBuilder {
public:
  explicit RowBuilder(TensorBuilder &n) : n(n) {}

  Value build(Value value) {
    if (Value row = known.lookup(value))
      return row;
    Operation *op = value.getDefiningOp();
    if (!op || getRank(value) == 0 || ++count > kMaxOps)
      return {};
    Value row = getShape(value)[0] == 1 ? value : buildOp(op, value);
    if (row)
      known[value] = row;
    return row;
  }

private:
  static RankedTensorType getRowType(Value value) {
    SmallVector<int64_t> shape(getShape(value));
    shape[0] = 1;
    return getType(value).clone(shape);
  }

  Value buildOp(Operation *op, Value value) {
    if (auto broadcast = dyn_cast<ps::BroadcastOp>(op)) {
      if (llvm::is_contained(broadcast.getDims(), 0))
        return cloneOnRows(op, value);
      return n.make<ps::BroadcastOp>(getRowType(value), broadcast.getOperand(),
                                     broadcast.getDimsAttr());
    }
    if (auto constant = dyn_cast<ps::ConstantOp>(op)) {
      auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
      return elements && elements.isSplat()
                 ? Value(n.make<ps::ConstantOp>(elements.resizeSplat(getRowType(value))))
                 : Value();
    }
    return isRowwise(op) ? cloneOnRows(op, value) : Value();
  }

  /// Returns true if row i of the result depends only on row i of each operand.
  static bool isRowwise(Operation *op) {
    if (isa<ps::RandomOpInterface>(op) || op->getNumResults() != 1)
      return false;
    if (auto slice = dyn_cast<ps::SliceOp>(op))
      return slice.getStarts()[0] == 0 && slice.getStrides()[0] == 1 &&
             slice.getLimits()[0] == getShape(slice.getOperand())[0];
    if (auto concat = dyn_cast<ps::ConcatOp>(op))
      return concat.getDim() != 0;
    auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
    return lowering && lowering.getLoweringKind() == ps::LoweringKind::Elementwise &&
           llvm::all_of(op->getOperandTypes(), [&](Type type) {
             auto tensor = dyn_cast<RankedTensorType>(type);
             return tensor && tensor.getShape() == getShape(op->getResult(0));
           });
  }

  Value cloneOnRows(Operation *op, Value value) {
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      Value row = build(operand);
      if (!row)
        return {};
      mapping.map(operand, row);
    }
    Operation *clone = n.b.clone(*op, mapping);
    clone->getResult(0).setType(getRowType(value));
    if (auto slice = dyn_cast<ps::SliceOp>(clone)) {
      SmallVector<int64_t> limits(slice.getLimits());
      limits[0] = 1;
      slice.setLimits(limits);
    }
    return clone->getResult(0);
  }

  TensorBuilder &n;
  llvm::DenseMap<Value, Value> known;
  unsigned count = 0;
};
} // namespace

Value buildFirstRow(TensorBuilder &n, Value value) { return RowBuilder(n).build(value); }

Value repeatRow(TensorBuilder &n, Value row, ArrayRef<int64_t> shape) {
  if (auto constant = row.getDefiningOp<ps::ConstantOp>())
    if (auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
        elements && elements.isSplat())
      return n.make<ps::ConstantOp>(elements.resizeSplat(getType(row).clone(shape)));
  return n.broadcast(row, shape);
}

} // namespace parashard::import
