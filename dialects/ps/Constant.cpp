// Implements constants, iotas and constant folding.
#include "dialects/ps/FoldSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard::ps;

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

/// Largest number of elements of a folded constant that is not a splat.
static constexpr int64_t kFoldLimit = 1 << 16;
/// Largest number of operand elements that folding expands.
static constexpr int64_t kFoldOperandLimit = 1 << 20;

Tensor parashard::ps::getSplatElement(DenseElementsAttr splat) {
  auto scalar = RankedTensorType::get({}, splat.getElementType());
  return Tensor::fromAttr(DenseElementsAttr::get(scalar, splat.getSplatValue<Attribute>()));
}

bool parashard::ps::isSplat(Attribute attr, double value) {
  auto dense = dyn_cast_if_present<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return false;
  return getSplatElement(dense).get(0) == value;
}

/// Returns whether operands and result are small enough to fold by evaluation.
static bool isWithinFoldLimits(RankedTensorType result, ArrayRef<Attribute> operands) {
  int64_t left = kFoldOperandLimit;
  for (Attribute attr : operands) {
    int64_t count = cast<DenseElementsAttr>(attr).getNumElements();
    if (count > left)
      return false;
    left -= count;
  }
  return result.getNumElements() <= kFoldLimit;
}

/// Returns a type with the same rank and one element.
static RankedTensorType shrink(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(SmallVector<int64_t>(tensor.getRank(), 1), tensor.getElementType());
}

/// Folds `op` on splats: evaluates the op on tensors with one element, and returns a splat of the
/// result's type.
static OpFoldResult foldSplats(Operation *op, ArrayRef<Attribute> operands) {
  OperationState state(op->getLoc(), op->getName());
  SmallVector<Tensor> values;
  for (Attribute attr : operands) {
    auto dense = cast<DenseElementsAttr>(attr);
    values.push_back(Tensor::fromAttr(
        DenseElementsAttr::get(shrink(dense.getType()), dense.getSplatValue<Attribute>())));
  }
  // Creates a detached clone with one-element types. Its operands are block arguments, as
  // placeholders for values defined outside.
  Block block;
  for (const Tensor &value : values)
    state.operands.push_back(block.addArgument(value.getType(), op->getLoc()));
  state.addTypes(shrink(op->getResult(0).getType()));
  state.propertiesAttr = op->getPropertiesAsAttribute();
  Operation *small = Operation::create(state);
  auto results = cast<EvaluateOpInterface>(small).evaluate(values, EvaluateContext());
  small->destroy();
  if (failed(results))
    return {};
  return cast<DenseElementsAttr>(results->front().toAttr())
      .resizeSplat(cast<ShapedType>(op->getResult(0).getType()));
}

OpFoldResult parashard::ps::foldByEvaluation(Operation *op, ArrayRef<Attribute> operands,
                                             bool uniform) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  bool constant = !operands.empty() && llvm::all_of(operands, [](Attribute attr) {
    return isa_and_present<DenseElementsAttr>(attr);
  });
  if (!constant || type.getNumElements() == 0)
    return {};
  auto splat = [](Attribute attr) { return cast<DenseElementsAttr>(attr).isSplat(); };
  if (uniform && llvm::all_of(operands, splat))
    return foldSplats(op, operands);
  if (!isWithinFoldLimits(type, operands))
    return {};
  SmallVector<Tensor> values;
  for (Attribute attr : operands)
    values.push_back(Tensor::fromAttr(cast<DenseElementsAttr>(attr)));
  auto results = cast<EvaluateOpInterface>(op).evaluate(values, EvaluateContext());
  if (failed(results))
    return {};
  return results->front().toAttr();
}

OpFoldResult parashard::ps::foldMovement(Operation *op, ArrayRef<Attribute> operands) {
  auto splat = operands.empty() ? DenseElementsAttr()
                                : dyn_cast_if_present<DenseElementsAttr>(operands.front());
  bool isUniform = splat && splat.isSplat() && llvm::all_of(operands, [&](Attribute attr) {
                     auto dense = dyn_cast_if_present<DenseElementsAttr>(attr);
                     return dense && dense.isSplat() &&
                            dense.getSplatValue<Attribute>() == splat.getSplatValue<Attribute>();
                   });
  if (isUniform)
    return splat.resizeSplat(cast<ShapedType>(op->getResult(0).getType()));
  return foldByEvaluation(op, operands, /*uniform=*/false);
}

//===----------------------------------------------------------------------===//
// constant
//===----------------------------------------------------------------------===//

void ConstantOp::build(OpBuilder &builder, OperationState &state, RankedTensorType type,
                       double splat) {
  Tensor value(RankedTensorType::get({}, type.getElementType()));
  value.set(0, splat);
  build(builder, state, value.toAttr().resizeSplat(type));
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

LoweringKind ConstantOp::getLoweringKind() { return LoweringKind::Movement; }

/// Returns one parallel factor per dim: constants may be sharded along every dim.
ShardingRule ConstantOp::getShardingRule() {
  return ShardingRule::elementwise(cast<RankedTensorType>(getType()).getShape(), 0, 1);
}

FailureOr<llvm::SmallVector<Tensor>> ConstantOp::evaluate(llvm::ArrayRef<Tensor>,
                                                          const EvaluateContext &) {
  return llvm::SmallVector<Tensor>{Tensor::fromAttr(getValue())};
}

/// Returns this rank's shard of a constant: reshapes it to its factors and slices each sharded
/// factor.
static Value sliceFactors(PartitionBuilder &builder, Value whole, RankedTensorType type,
                          ShardingAttr sharding, RankedTensorType localType) {
  SmallVector<int64_t> shape;
  SmallVector<std::pair<unsigned, FactorAttr>> split;
  for (auto [d, size] : llvm::enumerate(type.getShape())) {
    ArrayRef<FactorAttr> factors = sharding.getDims()[d].getFactors();
    if (factors.empty())
      shape.push_back(size);
    for (FactorAttr factor : factors) {
      if (!factor.getAxes().empty())
        split.push_back({unsigned(shape.size()), factor});
      shape.push_back(factor.getSize() ? factor.getSize() : size);
    }
  }
  Value value = builder.make<ReshapeOp>(type.clone(shape), whole);
  for (auto [dim, factor] : split) {
    shape[dim] = builder.getShardSize(shape[dim], factor.getAxes());
    value = builder.make<ShardSliceOp>(type.clone(shape), value,
                                       builder.getDeviceAxes(factor.getAxes()), int64_t(dim));
  }
  return builder.make<ReshapeOp>(localType, value);
}

FailureOr<llvm::SmallVector<Value>> ConstantOp::partition(PartitionBuilder &builder, ValueRange,
                                                          TypeRange localResults) {
  auto localType = cast<RankedTensorType>(localResults.front());
  auto type = cast<RankedTensorType>(getType());
  if (auto dense = dyn_cast<DenseElementsAttr>(getValue()); dense && dense.isSplat())
    return llvm::SmallVector<Value>{builder.make<ConstantOp>(dense.resizeSplat(localType))};
  Value whole = builder.make<ConstantOp>(getValue());
  ShardingAttr sharding = builder.getResultSharding(0);
  if (localType == type || !sharding)
    return llvm::SmallVector<Value>{whole};
  return llvm::SmallVector<Value>{sliceFactors(builder, whole, type, sharding, localType)};
}

//===----------------------------------------------------------------------===//
// iota
//===----------------------------------------------------------------------===//

LogicalResult IotaOp::verify() {
  int64_t rank = cast<RankedTensorType>(getType()).getRank();
  if (getDim() >= uint64_t(rank))
    return emitOpError() << "dim " << getDim() << " is out of range for a tensor with "
                         << describeCount(rank, "dim") << " (iota_c1)";
  return success();
}

LoweringKind IotaOp::getLoweringKind() { return LoweringKind::Elementwise; }

ShardingRule IotaOp::getShardingRule() {
  return ShardingRule::elementwise(cast<RankedTensorType>(getType()).getShape(), 0, 1);
}

FailureOr<llvm::SmallVector<Tensor>> IotaOp::evaluate(llvm::ArrayRef<Tensor>,
                                                      const EvaluateContext &) {
  Tensor result(cast<RankedTensorType>(getType()));
  int64_t stride = result.getStrides()[getDim()], size = result.getShape()[getDim()];
  for (int64_t i = 0; i < result.size(); ++i)
    result.setInt(i, i / stride % size);
  return llvm::SmallVector<Tensor>{std::move(result)};
}

/// Returns the index along `dim`, which the code generator passes as the only scalar.
Value IotaOp::emitElement(ElementBuilder &builder, ValueRange scalars) { return scalars.front(); }

FailureOr<llvm::SmallVector<Value>> IotaOp::partition(PartitionBuilder &builder, ValueRange,
                                                      TypeRange localResults) {
  auto localType = cast<RankedTensorType>(localResults.front());
  auto type = cast<RankedTensorType>(getType());
  if (localType.getShape()[getDim()] == type.getShape()[getDim()])
    return llvm::SmallVector<Value>{builder.make<IotaOp>(localType, int64_t(getDim()))};
  Value indices = builder.getGlobalIndices(type, builder.getResultSharding(0), getDim());
  auto line = cast<RankedTensorType>(indices.getType());
  if (line.getElementType() != type.getElementType())
    indices = builder.make<ConvertOp>(line.clone(type.getElementType()), indices);
  return llvm::SmallVector<Value>{builder.make<BroadcastOp>(
      localType, indices, builder.getDenseI64ArrayAttr({int64_t(getDim())}))};
}
