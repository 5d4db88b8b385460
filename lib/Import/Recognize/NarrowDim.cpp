// Narrows a dim to one index: moves the slice of this index before elementwise ops and broadcasts.
#include "lib/Import/Recognize/NarrowDim.h"
#include "lib/Import/Recognize/Matching.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace parashard::import::recognize {
namespace {

class Narrower {
public:
  explicit Narrower(OpBuilder &b) : b(b) {}

  Value narrow(Value value, int64_t dim) {
    if (getShape(value)[dim] == 1)
      return value;
    if (Value known = done.lookup({value, dim}))
      return known;
    Value result = build(value, dim);
    done[{value, dim}] = result;
    return result;
  }

private:
  Value build(Value value, int64_t dim) {
    SmallVector<int64_t> shape(getShape(value));
    shape[dim] = 1;
    RankedTensorType type = getType(value).clone(shape);
    Operation *op = value.getDefiningOp();
    if (auto broadcast = dyn_cast_or_null<ps::BroadcastOp>(op))
      return narrowBroadcast(broadcast, type, dim);
    auto constant = dyn_cast_or_null<ps::ConstantOp>(op);
    auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
    if (splat)
      return ps::ConstantOp::create(b, value.getLoc(), splat.resizeSplat(type));
    if (op && isElementwise(op))
      return narrowElementwise(op, type, dim);
    return ps::SliceOp::create(b, value.getLoc(), value, dim, 0, 1);
  }

  Value narrowBroadcast(ps::BroadcastOp op, RankedTensorType type, int64_t dim) {
    Value operand = op.getOperand();
    auto at = llvm::find(op.getDims(), dim);
    if (at != op.getDims().end())
      operand = narrow(operand, at - op.getDims().begin());
    return ps::BroadcastOp::create(b, op.getLoc(), type, operand, op.getDims());
  }

  /// Returns true for elementwise ops whose operands all have the same shape as the result.
  static bool isElementwise(Operation *op) {
    auto lowering = dyn_cast<ps::LoweringOpInterface>(op);
    return lowering && lowering.getLoweringKind() == ps::LoweringKind::Elementwise &&
           !isa<ps::RandomOpInterface>(op) && op->getNumResults() == 1 && op->getNumOperands() &&
           llvm::all_of(op->getOperands(), [&](Value operand) {
             auto type = dyn_cast<RankedTensorType>(operand.getType());
             return type && type.getShape() == getShape(op->getResult(0));
           });
  }

  Value narrowElementwise(Operation *op, RankedTensorType type, int64_t dim) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(narrow(operand, dim));
    Operation *clone = b.clone(*op);
    clone->setOperands(operands);
    clone->getResult(0).setType(type);
    return clone->getResult(0);
  }

  OpBuilder &b;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> done;
};

} // namespace

Value narrowDim(Value value, int64_t dim) {
  OpBuilder b(value.getContext());
  b.setInsertionPointAfterValue(value);
  return Narrower(b).narrow(value, dim);
}

} // namespace parashard::import::recognize
