// Implements the embedding, which looks up table rows by index, and its gradient.
#include "dialects/ps/Ps.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard::ps;

/// Verifies embedding_c1. `rows` is the type of the result.
static LogicalResult verifyShapes(Operation *op, RankedTensorType table, RankedTensorType indices,
                                  RankedTensorType rows) {
  if (table.getRank() != 2)
    return op->emitOpError("table has ")
           << parashard::describeCount(table.getRank(), "dim") << ", expected 2 (embedding_c1)";
  llvm::SmallVector<int64_t> expected(indices.getShape());
  expected.push_back(table.getDimSize(1));
  if (rows.getShape() != llvm::ArrayRef(expected))
    return op->emitOpError("result has type ")
           << rows << ", expected shape [" << llvm::ArrayRef(expected) << "] (embedding_c1)";
  return success();
}

LogicalResult EmbeddingOp::verify() {
  return verifyShapes(*this, getTensorType(getTable()), getTensorType(getIndices()),
                      getTensorType(getResult()));
}

/// Returns the rule with the factors vocabulary, width, and one for each dim of the indices.
static ShardingRule makeRule(RankedTensorType table, RankedTensorType indices, bool gradient) {
  ShardingRule rule;
  unsigned vocabulary = gradient ? rule.addFactor(table.getDimSize(0))
                                 : rule.addReduction(table.getDimSize(0), ReductionKind::Sum);
  unsigned width = rule.addFactor(table.getDimSize(1));
  TensorFactors positions, rows;
  for (int64_t size : indices.getShape())
    positions.push_back(
        {gradient ? rule.addReduction(size, ReductionKind::Sum) : rule.addFactor(size)});
  rows = positions;
  rows.push_back({width});
  TensorFactors whole{{vocabulary}, {width}};
  rule.operands = {gradient ? rows : whole, positions};
  rule.results = {gradient ? whole : rows};
  rule.linear = {{0}};
  return rule;
}

ShardingRule EmbeddingOp::getShardingRule() {
  return makeRule(getTensorType(getTable()), getTensorType(getIndices()), /*gradient=*/false);
}
ShardingRule EmbeddingGradOp::getShardingRule() {
  return makeRule(getTensorType(getResult()), getTensorType(getIndices()), /*gradient=*/true);
}

LoweringKind EmbeddingOp::getLoweringKind() { return LoweringKind::Library; }
LoweringKind EmbeddingGradOp::getLoweringKind() { return LoweringKind::Library; }

/// Counts only the rows that are looked up, not the whole table.
OpCost EmbeddingOp::getCost(TypeRange operands, TypeRange results) {
  OpCost cost;
  cost.bytesRead = getByteSize(operands[1]) + getByteSize(results[0]);
  cost.bytesWritten = getByteSize(results[0]);
  return cost;
}
OpCost EmbeddingGradOp::getCost(TypeRange operands, TypeRange results) {
  return elementwiseCost(operands, results);
}

FailureOr<llvm::SmallVector<Tensor>> EmbeddingOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                           const EvaluateContext &context) {
  Tensor result(getTensorType(getResult()));
  int64_t rows = operands[0].getShape()[0], width = operands[0].getShape()[1];
  for (int64_t i = 0, n = operands[1].size(); i < n; ++i) {
    int64_t index = operands[1].getInt(i);
    if (index < 0 || index >= rows)
      continue;
    for (int64_t j = 0; j < width; ++j)
      result.set(i * width + j, operands[0].get(index * width + j));
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

FailureOr<llvm::SmallVector<Tensor>> EmbeddingGradOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                               const EvaluateContext &context) {
  Tensor result(getTensorType(getResult()));
  int64_t rows = result.getShape()[0], width = result.getShape()[1];
  std::vector<double> sums(result.size());
  for (int64_t i = 0, n = operands[1].size(); i < n; ++i) {
    int64_t index = operands[1].getInt(i);
    if (index < 0 || index >= rows || (getPaddingIndex() && index == int64_t(*getPaddingIndex())))
      continue;
    for (int64_t j = 0; j < width; ++j)
      sums[index * width + j] += operands[0].get(i * width + j);
  }
  for (int64_t i = 0, n = result.size(); i < n; ++i)
    result.set(i, sums[i]);
  return llvm::SmallVector<Tensor>{std::move(result)};
}

bool EmbeddingOp::isDifferentiable(unsigned operand) { return operand == 0; }

FailureOr<llvm::SmallVector<Value>> EmbeddingOp::differentiate(BackwardBuilder &builder,
                                                               ValueRange cotangents) {
  llvm::SmallVector<Value> answer(2);
  if (cotangents[0] && builder.needs(0))
    answer[0] = builder.make<EmbeddingGradOp>(getTable().getType(), cotangents[0], getIndices(),
                                              getPaddingIndexAttr());
  return answer;
}

//===----------------------------------------------------------------------===//
// Partition
//===----------------------------------------------------------------------===//

/// Broadcasts a scalar i64 to the shape of `like`.
static Value spreadScalar(PartitionBuilder &builder, Value scalar, RankedTensorType like) {
  auto type = RankedTensorType::get(like.getShape(), builder.getI64Type());
  return builder.make<BroadcastOp>(type, scalar, llvm::ArrayRef<int64_t>{}).getResult();
}

/// Subtracts the first row of this rank's shard of the vocabulary from the indices. The padding
/// index becomes -1, which is in no shard. Example: shard 1 of 2 with 8 rows each turns index 9
/// into 1, and index 3 into -5, which is not in this shard.
static Value shiftIndices(PartitionBuilder &builder, Value indices, llvm::ArrayRef<StringAttr> axes,
                          int64_t localRows, std::optional<int64_t> padding) {
  auto wide = RankedTensorType::get(getTensorType(indices).getShape(), builder.getI64Type());
  if (indices.getType() != wide)
    indices = builder.make<ConvertOp>(wide, indices);
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value rows = builder.make<ConstantOp>(scalar, double(localRows));
  Value first = builder.make<MulOp>(scalar, builder.getShardIndex(axes), rows);
  Value shifted = builder.make<SubOp>(wide, indices, spreadScalar(builder, first, wide));
  if (!padding)
    return shifted;
  Value isPadding = builder.make<CompareOp>(
      RankedTensorType::get(wide.getShape(), builder.getI1Type()), Predicate::Eq, indices,
      builder.make<ConstantOp>(wide, double(*padding)));
  return builder.make<SelectOp>(wide, isPadding, builder.make<ConstantOp>(wide, -1.0), shifted);
}

static std::optional<int64_t> getPadding(std::optional<uint64_t> index) {
  return index ? std::optional<int64_t>(*index) : std::nullopt;
}

FailureOr<llvm::SmallVector<Value>>
EmbeddingOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  ShardingAttr table = builder.getOperandSharding(0);
  auto axes = table ? table.getDimAxes(0) : llvm::SmallVector<StringAttr>();
  if (builder.getShards(axes) == 1)
    return partitionByCloning(*this, builder, locals, localResults);
  Value indices =
      shiftIndices(builder, locals[1], axes, getTensorType(locals[0]).getDimSize(0), std::nullopt);
  return llvm::SmallVector<Value>{
      builder.make<EmbeddingOp>(localResults[0], locals[0], indices, IntegerAttr()).getResult()};
}

FailureOr<llvm::SmallVector<Value>>
EmbeddingGradOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  ShardingAttr result = builder.getResultSharding(0);
  auto axes = result ? result.getDimAxes(0) : llvm::SmallVector<StringAttr>();
  if (builder.getShards(axes) == 1) {
    auto results = partitionByCloning(*this, builder, locals, localResults);
    if (succeeded(results)) // no index refers to a padded row
      builder.setZeroPadded(results->front(), 0);
    return results;
  }
  Value cotangent = locals[0];
  for (int64_t dim = 0, rank = getTensorType(locals[1]).getRank(); dim < rank; ++dim)
    cotangent = builder.selectPadding(cotangent, builder.getOperandType(0),
                                      builder.getOperandSharding(0), dim, 0);
  Value indices =
      shiftIndices(builder, locals[1], axes, cast<RankedTensorType>(localResults[0]).getDimSize(0),
                   getPadding(getPaddingIndex()));
  Value gradient =
      builder.make<EmbeddingGradOp>(localResults[0], cotangent, indices, IntegerAttr()).getResult();
  builder.setZeroPadded(gradient, 0);
  return llvm::SmallVector<Value>{gradient};
}

//===----------------------------------------------------------------------===//
// Library calls
//===----------------------------------------------------------------------===//

static void addIndices(CallBuilder &call, RankedTensorType table, Value indices) {
  RankedTensorType type = getTensorType(indices);
  call.addType("index_dtype", type.getElementType());
  call.add("count", type.getNumElements());
  call.add("width", table.getDimSize(1));
  call.add("rows", table.getDimSize(0));
  call.addBuffer("indices", indices);
}

LogicalResult EmbeddingOp::emitCall(CallBuilder &call) {
  addIndices(call, getTensorType(getTable()), getIndices());
  call.addTypes(getTable(), getResult());
  call.addBuffer("table", getTable());
  call.addBuffer("out", getResult());
  return success();
}

LogicalResult EmbeddingGradOp::emitCall(CallBuilder &call) {
  addIndices(call, getTensorType(getResult()), getIndices());
  call.addTypes(getCotangent(), getResult());
  call.addBuffer("grad", getCotangent());
  call.addBuffer("out", getResult());
  call.add("accumulate", call.getAccumulated(getResult()));
  if (auto padding = getPaddingIndex())
    call.add("padding_index", int64_t(*padding));
  return success();
}
