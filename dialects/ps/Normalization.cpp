// Implements layer normalization, softmax and their gradients, along the last dim.
#include "dialects/ps/RowSupport.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

using Column = RowBuilder::Column;

/// Counts `flopsPerElement` flops per result element, one read of each operand, and one write of
/// each result.
static OpCost rowCost(TypeRange operands, TypeRange results, int64_t flopsPerElement) {
  OpCost cost = elementwiseCost(operands, results);
  cost.otherFlops *= flopsPerElement;
  return cost;
}

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

/// Verifies layer_norm_c1 and layer_norm_c2.
static LogicalResult verifyRstd(Operation *op, RankedTensorType whole, RankedTensorType rstd) {
  if (whole.getRank() == 0)
    return op->emitOpError("normalizes along the last dim, but ")
           << whole << " has no dims (layer_norm_c1)";
  if (rstd.getShape() != whole.getShape().drop_back() ||
      rstd.getElementType() != getComputeType(whole))
    return op->emitOpError("rstd has type ")
           << rstd << ", expected "
           << RankedTensorType::get(whole.getShape().drop_back(), getComputeType(whole))
           << " (layer_norm_c2)";
  return success();
}

LogicalResult LayerNormOp::verify() {
  if (getResult().getType() != getOperand().getType())
    return emitOpError("result has type ")
           << getResult().getType() << ", operand " << getOperand().getType();
  return verifyRstd(*this, getTensorType(getOperand()), getTensorType(getRstd()));
}

ShardingRule LayerNormOp::getShardingRule() {
  return makeRowRule(getTensorType(getOperand()).getShape(), {true}, {true, false});
}
LoweringKind LayerNormOp::getLoweringKind() { return LoweringKind::Row; }
OpCost LayerNormOp::getCost(TypeRange operands, TypeRange results) {
  return rowCost(operands, results, 6);
}

FailureOr<llvm::SmallVector<Tensor>> LayerNormOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                           const EvaluateContext &context) {
  const Tensor &x = operands[0];
  Tensor y(getTensorType(getResult())), rstd(getTensorType(getRstd()));
  RowSpace space(x.getType());
  for (int64_t row = 0; row < space.rows; ++row) {
    int64_t first = row * space.columns;
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < space.columns; ++j)
      mean += x.get(first + j);
    mean /= space.columns;
    for (int64_t j = 0; j < space.columns; ++j)
      variance += (x.get(first + j) - mean) * (x.get(first + j) - mean);
    double r = 1 / std::sqrt(variance / space.columns + getEpsilon().convertToDouble());
    rstd.set(row, r);
    for (int64_t j = 0; j < space.columns; ++j)
      y.set(first + j, (x.get(first + j) - mean) * r);
  }
  return llvm::SmallVector<Tensor>{std::move(y), std::move(rstd)};
}

LogicalResult LayerNormOp::emitRow(RowBuilder &row) {
  Type element = getElementTypeOrSelf(getOperand().getType()), compute = getComputeType(element);
  Column x = row.keep(loadWide(row, 0), compute);
  ElementBuilder &s = row.scalars();
  Value total = row.reduce(ReductionKind::Sum, x);
  Value count = s.constant(total, row.getColumns());
  Column mean = row.splat(s.div(total, count));
  Column centered = row.keep([=](ElementBuilder &e) { return e.sub(x(e), mean(e)); }, compute);
  Value squares = row.reduce(ReductionKind::Sum, [=](ElementBuilder &e) {
    Value c = centered(e);
    return e.mul(c, c);
  });
  Value variance = s.add(s.div(squares, count), s.constant(total, getEpsilon().convertToDouble()));
  Value rstd = s.div(s.constant(total, 1), s.unary<math::SqrtOp>(variance));
  Column scale = row.splat(rstd);
  row.store(0, [=](ElementBuilder &e) { return narrow(e, e.mul(centered(e), scale(e)), element); });
  row.storeRow(1, rstd);
  return success();
}

FailureOr<llvm::SmallVector<Value>> LayerNormOp::differentiate(BackwardBuilder &builder,
                                                               ValueRange cotangents) {
  if (cotangents[1])
    return emitOpError("has no derivative through rstd"), failure();
  llvm::SmallVector<Value> answer(1);
  if (cotangents[0] && builder.needs(0))
    answer[0] = builder.make<LayerNormGradOp>(cotangents[0], getResult(), getRstd());
  return answer;
}

FailureOr<llvm::SmallVector<Value>>
LayerNormOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  RowPartition row(builder, builder.getOperandType(0), builder.getOperandSharding(0));
  if (!row.isSplit())
    return partitionByCloning(*this, builder, locals, localResults);
  Value x = row.select(row.widen(locals[0]), 0);
  auto mean = [&](Value value) {
    Value total = row.reduce(ReductionKind::Sum, value);
    return row.binary<DivOp>(total, row.constant(total, row.getGlobalColumns()));
  };
  Value centered = row.select(row.binary<SubOp>(x, row.spread(mean(x), x)), 0);
  Value variance = mean(row.binary<MulOp>(centered, centered));
  Value rstd = row.unary<RsqrtOp>(
      row.binary<AddOp>(variance, row.constant(variance, getEpsilon().convertToDouble())));
  Value y = row.binary<MulOp>(centered, row.spread(rstd, x));
  return llvm::SmallVector<Value>{row.convert(y, getElementTypeOrSelf(localResults[0])), rstd};
}

//===----------------------------------------------------------------------===//
// layer_norm_grad
//===----------------------------------------------------------------------===//

LogicalResult LayerNormGradOp::verify() {
  return verifyRstd(*this, getTensorType(getResult()), getTensorType(getRstd()));
}

ShardingRule LayerNormGradOp::getShardingRule() {
  ShardingRule rule =
      makeRowRule(getTensorType(getResult()).getShape(), {true, true, false}, {true});
  rule.linear = {{0}};
  return rule;
}
LoweringKind LayerNormGradOp::getLoweringKind() { return LoweringKind::Row; }
OpCost LayerNormGradOp::getCost(TypeRange operands, TypeRange results) {
  return rowCost(operands, results, 7);
}

FailureOr<llvm::SmallVector<Tensor>> LayerNormGradOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                               const EvaluateContext &context) {
  const Tensor &g = operands[0], &y = operands[1], &rstd = operands[2];
  Tensor result(getTensorType(getResult()));
  RowSpace space(g.getType());
  for (int64_t row = 0; row < space.rows; ++row) {
    int64_t first = row * space.columns;
    double mean = 0, product = 0;
    for (int64_t i = first; i < first + space.columns; ++i) {
      mean += g.get(i);
      product += g.get(i) * y.get(i);
    }
    mean /= space.columns;
    product /= space.columns;
    for (int64_t i = first; i < first + space.columns; ++i)
      result.set(i, rstd.get(row) * (g.get(i) - mean - y.get(i) * product));
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

LogicalResult LayerNormGradOp::emitRow(RowBuilder &row) {
  Type element = getElementTypeOrSelf(getResult().getType()), compute = getComputeType(element);
  Column g = row.keep(loadWide(row, 0), compute), y = row.keep(loadWide(row, 1), compute);
  ElementBuilder &s = row.scalars();
  Value total = row.reduce(ReductionKind::Sum, g);
  Value products =
      row.reduce(ReductionKind::Sum, [=](ElementBuilder &e) { return e.mul(g(e), y(e)); });
  Value count = s.constant(total, row.getColumns());
  Column mean = row.splat(s.div(total, count)), product = row.splat(s.div(products, count));
  Column rstd = row.splat(row.loadRow(2));
  row.store(0, [=](ElementBuilder &e) {
    Value inner = e.sub(e.sub(g(e), mean(e)), e.mul(y(e), product(e)));
    return narrow(e, e.mul(rstd(e), inner), element);
  });
  return success();
}

FailureOr<llvm::SmallVector<Value>>
LayerNormGradOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  RowPartition row(builder, builder.getOperandType(0), builder.getOperandSharding(0));
  if (!row.isSplit())
    return partitionByCloning(*this, builder, locals, localResults);
  Value g = row.select(row.widen(locals[0]), 0), y = row.select(row.widen(locals[1]), 0);
  auto mean = [&](Value value) {
    Value total = row.reduce(ReductionKind::Sum, value);
    return row.spread(row.binary<DivOp>(total, row.constant(total, row.getGlobalColumns())), g);
  };
  Value product = row.binary<MulOp>(y, mean(row.binary<MulOp>(g, y)));
  Value inner = row.binary<SubOp>(row.binary<SubOp>(g, mean(g)), product);
  Value result = row.binary<MulOp>(row.spread(locals[2], g), inner);
  return llvm::SmallVector<Value>{row.convert(result, getElementTypeOrSelf(localResults[0]))};
}

//===----------------------------------------------------------------------===//
// softmax and log_softmax
//===----------------------------------------------------------------------===//

ShardingRule SoftmaxOp::getShardingRule() {
  return makeRowRule(getTensorType(getResult()).getShape(), {true}, {true});
}
ShardingRule LogSoftmaxOp::getShardingRule() {
  return makeRowRule(getTensorType(getResult()).getShape(), {true}, {true});
}
LoweringKind SoftmaxOp::getLoweringKind() { return LoweringKind::Row; }
LoweringKind LogSoftmaxOp::getLoweringKind() { return LoweringKind::Row; }
OpCost SoftmaxOp::getCost(TypeRange operands, TypeRange results) {
  return rowCost(operands, results, 5);
}
OpCost LogSoftmaxOp::getCost(TypeRange operands, TypeRange results) {
  return rowCost(operands, results, 5);
}

/// Evaluates softmax or, with `log`, its logarithm.
static llvm::SmallVector<Tensor> evaluateSoftmax(const Tensor &x, bool log) {
  Tensor y(x.getType());
  RowSpace space(x.getType());
  for (int64_t row = 0; row < space.rows; ++row) {
    int64_t first = row * space.columns, end = first + space.columns;
    double max = -INFINITY, sum = 0;
    for (int64_t i = first; i < end; ++i)
      max = std::fmax(max, x.get(i));
    for (int64_t i = first; i < end; ++i)
      sum += std::exp(x.get(i) - max);
    for (int64_t i = first; i < end; ++i)
      y.set(i, log ? x.get(i) - max - std::log(sum) : std::exp(x.get(i) - max) / sum);
  }
  llvm::SmallVector<Tensor> results;
  results.push_back(std::move(y));
  return results;
}

FailureOr<llvm::SmallVector<Tensor>> SoftmaxOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                         const EvaluateContext &context) {
  return evaluateSoftmax(operands[0], /*log=*/false);
}
FailureOr<llvm::SmallVector<Tensor>> LogSoftmaxOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                            const EvaluateContext &context) {
  return evaluateSoftmax(operands[0], /*log=*/true);
}

/// Emits the operand minus the maximum of its row.
static Column emitShifted(RowBuilder &row, Type compute) {
  Column x = loadWide(row, 0);
  Column max = row.splat(row.reduce(ReductionKind::Max, x));
  return row.keep([=](ElementBuilder &e) { return e.sub(x(e), max(e)); }, compute);
}

LogicalResult SoftmaxOp::emitRow(RowBuilder &row) {
  Type element = getElementTypeOrSelf(getType()), compute = getComputeType(element);
  Column shifted = emitShifted(row, compute);
  Column exp =
      row.keep([=](ElementBuilder &e) { return e.unary<math::ExpOp>(shifted(e)); }, compute);
  Value sum = row.reduce(ReductionKind::Sum, exp);
  ElementBuilder &s = row.scalars();
  Column inverse = row.splat(s.div(s.constant(sum, 1), sum));
  row.store(0, [=](ElementBuilder &e) { return narrow(e, e.mul(exp(e), inverse(e)), element); });
  return success();
}

LogicalResult LogSoftmaxOp::emitRow(RowBuilder &row) {
  Type element = getElementTypeOrSelf(getType());
  Column shifted = emitShifted(row, getComputeType(element));
  Value sum = row.reduce(ReductionKind::Sum,
                         [=](ElementBuilder &e) { return e.unary<math::ExpOp>(shifted(e)); });
  Column log = row.splat(row.scalars().unary<math::LogOp>(sum));
  row.store(0, [=](ElementBuilder &e) { return narrow(e, e.sub(shifted(e), log(e)), element); });
  return success();
}

FailureOr<llvm::SmallVector<Value>> SoftmaxOp::differentiate(BackwardBuilder &builder,
                                                             ValueRange cotangents) {
  llvm::SmallVector<Value> answer(1);
  if (cotangents[0] && builder.needs(0))
    answer[0] = builder.make<SoftmaxGradOp>(cotangents[0], getResult());
  return answer;
}

/// Returns the cotangent g - exp(y) sum(g), where g is the cotangent of the result y.
FailureOr<llvm::SmallVector<Value>> LogSoftmaxOp::differentiate(BackwardBuilder &builder,
                                                                ValueRange cotangents) {
  llvm::SmallVector<Value> answer(1);
  if (!cotangents[0] || !builder.needs(0))
    return answer;
  RankedTensorType type = getTensorType(getResult());
  llvm::SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
  Value sum = builder.make<ReduceOp>(ReductionKind::Sum, cotangents[0],
                                     llvm::ArrayRef<int64_t>{type.getRank() - 1});
  Value spread = builder.make<BroadcastOp>(type, sum, llvm::ArrayRef<int64_t>(dims));
  Value softmax = builder.make<ExpOp>(type, getResult());
  answer[0] = builder.make<SubOp>(type, cotangents[0], builder.make<MulOp>(type, softmax, spread));
  return answer;
}

/// Returns two values: the operand minus its maximum over all ranks, and the sum of the
/// exponentials of this difference.
static std::pair<Value, Value> partitionShifted(RowPartition &row, Value local) {
  Value x = row.select(row.widen(local), -INFINITY);
  Value shifted = row.binary<SubOp>(x, row.spread(row.reduce(ReductionKind::Max, x), x));
  return {shifted, row.reduce(ReductionKind::Sum, row.unary<ExpOp>(shifted))};
}

FailureOr<llvm::SmallVector<Value>>
SoftmaxOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  RowPartition row(builder, builder.getOperandType(0), builder.getOperandSharding(0));
  if (!row.isSplit())
    return partitionByCloning(*this, builder, locals, localResults);
  auto [shifted, sum] = partitionShifted(row, locals[0]);
  Value y = row.binary<DivOp>(row.unary<ExpOp>(shifted), row.spread(sum, shifted));
  return llvm::SmallVector<Value>{row.convert(y, getElementTypeOrSelf(localResults[0]))};
}

FailureOr<llvm::SmallVector<Value>>
LogSoftmaxOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  RowPartition row(builder, builder.getOperandType(0), builder.getOperandSharding(0));
  if (!row.isSplit())
    return partitionByCloning(*this, builder, locals, localResults);
  auto [shifted, sum] = partitionShifted(row, locals[0]);
  Value y = row.binary<SubOp>(shifted, row.spread(row.unary<LogOp>(sum), shifted));
  return llvm::SmallVector<Value>{row.convert(y, getElementTypeOrSelf(localResults[0]))};
}

//===----------------------------------------------------------------------===//
// softmax_grad
//===----------------------------------------------------------------------===//

ShardingRule SoftmaxGradOp::getShardingRule() {
  ShardingRule rule = makeRowRule(getTensorType(getResult()).getShape(), {true, true}, {true});
  rule.linear = {{0}};
  return rule;
}
LoweringKind SoftmaxGradOp::getLoweringKind() { return LoweringKind::Row; }
OpCost SoftmaxGradOp::getCost(TypeRange operands, TypeRange results) {
  return rowCost(operands, results, 4);
}

FailureOr<llvm::SmallVector<Tensor>> SoftmaxGradOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                             const EvaluateContext &context) {
  const Tensor &g = operands[0], &y = operands[1];
  Tensor result(g.getType());
  RowSpace space(g.getType());
  for (int64_t row = 0; row < space.rows; ++row) {
    int64_t first = row * space.columns, end = first + space.columns;
    double sum = 0;
    for (int64_t i = first; i < end; ++i)
      sum += g.get(i) * y.get(i);
    for (int64_t i = first; i < end; ++i)
      result.set(i, y.get(i) * (g.get(i) - sum));
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

LogicalResult SoftmaxGradOp::emitRow(RowBuilder &row) {
  Type element = getElementTypeOrSelf(getType()), compute = getComputeType(element);
  Column g = row.keep(loadWide(row, 0), compute), y = row.keep(loadWide(row, 1), compute);
  Column sum = row.splat(
      row.reduce(ReductionKind::Sum, [=](ElementBuilder &e) { return e.mul(g(e), y(e)); }));
  row.store(
      0, [=](ElementBuilder &e) { return narrow(e, e.mul(y(e), e.sub(g(e), sum(e))), element); });
  return success();
}

FailureOr<llvm::SmallVector<Value>>
SoftmaxGradOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  RowPartition row(builder, builder.getOperandType(0), builder.getOperandSharding(0));
  if (!row.isSplit())
    return partitionByCloning(*this, builder, locals, localResults);
  Value g = row.widen(locals[0]), y = row.widen(locals[1]);
  Value sum = row.reduce(ReductionKind::Sum, row.select(row.binary<MulOp>(g, y), 0));
  Value result = row.binary<MulOp>(y, row.binary<SubOp>(g, row.spread(sum, g)));
  return llvm::SmallVector<Value>{row.convert(result, getElementTypeOrSelf(localResults[0]))};
}
