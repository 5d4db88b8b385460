// Implements the helpers of ops that work along the last dim.
#include "dialects/ps/RowSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace parashard::ps;

RowSpace::RowSpace(RankedTensorType type) {
  if (type.getRank() == 0)
    return;
  columns = type.getShape().back();
  for (int64_t size : type.getShape().drop_back())
    rows *= size;
}

Type parashard::ps::getComputeType(Type elementOrShaped) {
  Type element = getElementTypeOrSelf(elementOrShaped);
  return element.isF64() ? element : Float32Type::get(element.getContext());
}

ShardingRule parashard::ps::makeRowRule(llvm::ArrayRef<int64_t> shape,
                                        llvm::ArrayRef<bool> operandHasColumns,
                                        llvm::ArrayRef<bool> resultHasColumns) {
  ShardingRule rule;
  TensorFactors whole;
  for (int64_t size : shape)
    whole.push_back({rule.addFactor(size)});
  rule.factors.back().isCoupled = true;
  TensorFactors rows(whole.begin(), whole.end() - 1);
  for (bool has : operandHasColumns)
    rule.operands.push_back(has ? whole : rows);
  for (bool has : resultHasColumns)
    rule.results.push_back(has ? whole : rows);
  return rule;
}

//===----------------------------------------------------------------------===//
// Row code
//===----------------------------------------------------------------------===//

/// Returns the type of `shape` with another element type.
static Type withElement(Type shape, Type element) {
  if (auto vector = dyn_cast<VectorType>(shape))
    return VectorType::get(vector.getShape(), element);
  return element;
}

Value parashard::ps::widen(ElementBuilder &e, Value value) {
  Type element = getElementTypeOrSelf(value.getType()), compute = getComputeType(element);
  if (element == compute || !isa<FloatType>(element))
    return value;
  return arith::ExtFOp::create(e.builder(), e.getLoc(), withElement(value.getType(), compute),
                               value);
}

Value parashard::ps::narrow(ElementBuilder &e, Value value, Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element)
    return value;
  Type to = withElement(value.getType(), element);
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(e.builder(), e.getLoc(), to, value);
  return arith::TruncFOp::create(e.builder(), e.getLoc(), to, value);
}

RowBuilder::Column parashard::ps::loadWide(RowBuilder &row, unsigned operand) {
  return [column = row.load(operand)](ElementBuilder &e) { return widen(e, column(e)); };
}

//===----------------------------------------------------------------------===//
// Rows sharded over ranks
//===----------------------------------------------------------------------===//

RowPartition::RowPartition(PartitionBuilder &builder, RankedTensorType global,
                           ShardingAttr sharding)
    : builder(builder), global(global), sharding(sharding) {
  if (sharding && global.getRank() > 0)
    axes = sharding.getDimAxes(global.getRank() - 1);
}

Value RowPartition::convert(Value value, Type elementType) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getElementType() == elementType)
    return value;
  return builder.make<ConvertOp>(RankedTensorType::get(type.getShape(), elementType), value)
      .getResult();
}

Value RowPartition::widen(Value value) { return convert(value, getComputeType(value.getType())); }

Value RowPartition::constant(Value like, double value) {
  return builder.make<ConstantOp>(cast<RankedTensorType>(like.getType()), value).getResult();
}

Value RowPartition::select(Value value, double identity) {
  auto type = RankedTensorType::get(global.getShape(), getElementTypeOrSelf(value.getType()));
  return builder.selectPadding(value, type, sharding, global.getRank() - 1, identity);
}

Value RowPartition::reduce(ReductionKind kind, Value value) {
  Value row = builder.make<ReduceOp>(kind, value, llvm::ArrayRef<int64_t>{global.getRank() - 1})
                  .getResult();
  return axes.empty() ? row : builder.allReduce(row, kind, axes);
}

Value RowPartition::spread(Value row, Value like) {
  auto type = RankedTensorType::get(cast<RankedTensorType>(like.getType()).getShape(),
                                    getElementTypeOrSelf(row.getType()));
  llvm::SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
  return builder.make<BroadcastOp>(type, row, llvm::ArrayRef<int64_t>(dims)).getResult();
}

Value RowPartition::columns(Value like) {
  int64_t last = global.getRank() - 1;
  Value indices = builder.getGlobalIndices(global, sharding, last);
  auto type = RankedTensorType::get(cast<RankedTensorType>(like.getType()).getShape(),
                                    builder.getI64Type());
  return builder.make<BroadcastOp>(type, indices, llvm::ArrayRef<int64_t>{last}).getResult();
}

Value RowPartition::compare(Predicate predicate, Value x, Value y) {
  auto type =
      RankedTensorType::get(cast<RankedTensorType>(x.getType()).getShape(), builder.getI1Type());
  return builder.make<CompareOp>(type, predicate, x, y).getResult();
}

Value RowPartition::choose(Value condition, Value x, Value y) {
  return builder.make<SelectOp>(x.getType(), condition, x, y).getResult();
}
