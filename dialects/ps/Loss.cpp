// Implements cross-entropy over the last dim, and its gradient.
#include "dialects/ps/RowSupport.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>

using namespace mlir;
using namespace parashard::ps;

using Column = RowBuilder::Column;

void CrossEntropyOp::build(OpBuilder &builder, OperationState &state, Value logits, Value labels,
                           int64_t ignoreIndex, double smoothing) {
  auto type =
      RankedTensorType::get(getTensorType(labels).getShape(), getComputeType(logits.getType()));
  build(builder, state, type, type, logits, labels, builder.getI64IntegerAttr(ignoreIndex),
        builder.getF64FloatAttr(smoothing));
}

/// Returns whether a double represents the number exactly. The constant for the ignored label is
/// created from a double.
static bool isWholeDouble(int64_t number) {
  constexpr int64_t kMost = int64_t(1) << 53;
  return number >= -kMost && number <= kMost;
}

LogicalResult CrossEntropyOp::verify() {
  RankedTensorType logits = getTensorType(getLogits()), labels = getTensorType(getLabels());
  if (logits.getRank() == 0 || labels.getShape() != logits.getShape().drop_back())
    return emitOpError("labels have type ") << labels << ", expected the shape of " << logits
                                            << " without the last dim (cross_entropy_c1)";
  if (labels.getElementType().isInteger(1))
    return emitOpError("labels are bools, expected integers (cross_entropy_c2)");
  if (!isWholeDouble(getIgnoreIndex()))
    return emitOpError("ignored label is ")
           << int64_t(getIgnoreIndex())
           << ", expected a number from -2^53 to 2^53 (cross_entropy_c3)";
  auto loss = RankedTensorType::get(labels.getShape(), getComputeType(logits));
  if (getLoss().getType() != loss)
    return emitOpError("loss has type ")
           << getLoss().getType() << ", expected " << loss << " (cross_entropy_c1)";
  return success();
}

ShardingRule CrossEntropyOp::getShardingRule() {
  return makeRowRule(getTensorType(getLogits()).getShape(), {true, false}, {false, false});
}
ShardingRule CrossEntropyGradOp::getShardingRule() {
  ShardingRule rule =
      makeRowRule(getTensorType(getLogits()).getShape(), {true, false, false, false}, {true});
  rule.linear = {{1}};
  return rule;
}

LoweringKind CrossEntropyOp::getLoweringKind() { return LoweringKind::Row; }
LoweringKind CrossEntropyGradOp::getLoweringKind() { return LoweringKind::Row; }

/// Counts about five flops per logit.
static OpCost logitCost(TypeRange operands, TypeRange results) {
  OpCost cost = elementwiseCost(operands, results);
  cost.otherFlops = 5 * cast<RankedTensorType>(operands[0]).getNumElements();
  return cost;
}
OpCost CrossEntropyOp::getCost(TypeRange operands, TypeRange results) {
  return logitCost(operands, results);
}
OpCost CrossEntropyGradOp::getCost(TypeRange operands, TypeRange results) {
  return logitCost(operands, results);
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Returns whether a label is a column. All other labels, except the ignored one, give NaN, in the
/// evaluator and in compiled code. The runtime checks labels when it reads data, but padded rows
/// may contain any label.
static bool isColumn(int64_t label, int64_t columns) { return label >= 0 && label < columns; }

FailureOr<llvm::SmallVector<Tensor>> CrossEntropyOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                              const EvaluateContext &context) {
  const Tensor &x = operands[0];
  Tensor loss(getTensorType(getLoss())), lse(getTensorType(getLse()));
  RowSpace space(x.getType());
  double smoothing = getSmoothing().convertToDouble();
  for (int64_t row = 0; row < space.rows; ++row) {
    int64_t first = row * space.columns, label = operands[1].getInt(row);
    double max = -INFINITY, sum = 0, total = 0;
    for (int64_t j = 0; j < space.columns; ++j)
      max = std::fmax(max, x.get(first + j));
    for (int64_t j = 0; j < space.columns; ++j) {
      sum += std::exp(x.get(first + j) - max);
      total += x.get(first + j);
    }
    double logSum = max + std::log(sum);
    lse.set(row, logSum);
    if (label == getIgnoreIndexAttr().getInt())
      continue;
    double nll = isColumn(label, space.columns) ? logSum - x.get(first + label) : NAN;
    loss.set(row, smoothing == 0
                      ? nll
                      : (1 - smoothing) * nll + smoothing * (logSum - total / space.columns));
  }
  return llvm::SmallVector<Tensor>{std::move(loss), std::move(lse)};
}

FailureOr<llvm::SmallVector<Tensor>> CrossEntropyGradOp::evaluate(llvm::ArrayRef<Tensor> operands,
                                                                  const EvaluateContext &context) {
  const Tensor &x = operands[0], &g = operands[1], &lse = operands[3];
  Tensor result(x.getType());
  RowSpace space(x.getType());
  double smoothing = getSmoothing().convertToDouble();
  for (int64_t row = 0; row < space.rows; ++row) {
    int64_t first = row * space.columns, label = operands[2].getInt(row);
    if (label == getIgnoreIndexAttr().getInt())
      continue;
    double cotangent = isColumn(label, space.columns) ? g.get(row) : NAN;
    for (int64_t j = 0; j < space.columns; ++j) {
      double target = (j == label ? 1 - smoothing : 0) + smoothing / space.columns;
      result.set(first + j, cotangent * (std::exp(x.get(first + j) - lse.get(row)) - target));
    }
  }
  return llvm::SmallVector<Tensor>{std::move(result)};
}

bool CrossEntropyOp::isDifferentiable(unsigned operand) { return operand == 0; }

/// Returns the cotangent of the logits: `ps.cross_entropy_grad` for the loss, plus softmax times
/// the cotangent of the log-sum-exp.
FailureOr<llvm::SmallVector<Value>> CrossEntropyOp::differentiate(BackwardBuilder &builder,
                                                                  ValueRange cotangents) {
  llvm::SmallVector<Value> answer(2);
  if (!builder.needs(0))
    return answer;
  if (cotangents[0])
    answer[0] = builder.make<CrossEntropyGradOp>(getLogits().getType(), getLogits(), cotangents[0],
                                                 getLabels(), getLse(), getIgnoreIndexAttr(),
                                                 getSmoothingAttr());
  if (!cotangents[1])
    return answer;
  RankedTensorType logits = getTensorType(getLogits());
  auto wide = RankedTensorType::get(logits.getShape(), getComputeType(logits));
  llvm::SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, logits.getRank() - 1));
  auto spread = [&](Value row) -> Value {
    return builder.make<BroadcastOp>(wide, row, llvm::ArrayRef<int64_t>(dims));
  };
  auto convert = [&](Value value, RankedTensorType type) -> Value {
    return value.getType() == type ? value : builder.make<ConvertOp>(type, value).getResult();
  };
  Value shifted = builder.make<SubOp>(wide, convert(getLogits(), wide), spread(getLse()));
  Value softmax = builder.make<ExpOp>(wide, shifted);
  Value scaled = builder.make<MulOp>(wide, softmax, spread(cotangents[1]));
  Value own = convert(scaled, logits);
  answer[0] = answer[0] ? builder.make<AddOp>(logits, answer[0], own).getResult() : own;
  return answer;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

/// Values for the label of a row: the label, whether it is ignored, and whether it is a column.
namespace {
struct LabelCode {
  Value label, ignored, inRange;
};
} // namespace

static LabelCode emitLabel(RowBuilder &row, unsigned operand, int64_t ignoreIndex) {
  ElementBuilder &s = row.scalars();
  Value label = row.loadRow(operand);
  OpBuilder &b = s.builder();
  if (!label.getType().isInteger(64))
    label = arith::ExtSIOp::create(b, s.getLoc(), b.getI64Type(), label);
  Value ignored = s.compare(Predicate::Eq, label, s.constant(label, double(ignoreIndex)));
  Value low = s.compare(Predicate::Ge, label, s.constant(label, 0));
  Value high = s.compare(Predicate::Lt, label, s.constant(label, double(row.getColumns())));
  return {label, ignored, arith::AndIOp::create(b, s.getLoc(), low, high)};
}

/// Stores NaN as the loss of a row whose label is neither a column nor the ignored label. The error
/// is then visible, and no load is out of bounds.
LogicalResult CrossEntropyOp::emitRow(RowBuilder &row) {
  Type compute = getComputeType(getLogits().getType());
  ElementBuilder &s = row.scalars();
  Column x = row.keep(loadWide(row, 0), compute);
  Value maximum = row.reduce(ReductionKind::Max, x);
  Column max = row.splat(maximum);
  Value sum = row.reduce(ReductionKind::Sum, [=](ElementBuilder &e) {
    return e.unary<math::ExpOp>(e.sub(x(e), max(e)));
  });
  Value lse = s.add(maximum, s.unary<math::LogOp>(sum));
  LabelCode code = emitLabel(row, 1, getIgnoreIndexAttr().getInt());
  Value column =
      arith::IndexCastOp::create(s.builder(), s.getLoc(), s.builder().getIndexType(),
                                 s.select(code.inRange, code.label, s.constant(code.label, 0)));
  Value loss = s.sub(lse, widen(s, row.loadAt(0, column)));
  double smoothing = getSmoothing().convertToDouble();
  if (smoothing != 0) {
    Value total = row.reduce(ReductionKind::Sum, x);
    Value mean = s.sub(lse, s.div(total, s.constant(total, double(row.getColumns()))));
    loss = s.add(s.mul(s.constant(loss, 1 - smoothing), loss),
                 s.mul(s.constant(loss, smoothing), mean));
  }
  loss = s.select(code.inRange, loss, s.constant(loss, NAN));
  row.storeRow(0, s.select(code.ignored, s.constant(loss, 0), loss));
  row.storeRow(1, lse);
  return success();
}

/// Selects zeros for an ignored row instead of multiplying by 0, since its logits may be infinite
/// or NaN.
LogicalResult CrossEntropyGradOp::emitRow(RowBuilder &row) {
  Type element = getElementTypeOrSelf(getLogits().getType());
  ElementBuilder &s = row.scalars();
  LabelCode code = emitLabel(row, 2, getIgnoreIndexAttr().getInt());
  Value g = row.loadRow(1);
  Column cotangent = row.splat(s.select(code.inRange, g, s.constant(g, NAN)));
  Column lse = row.splat(row.loadRow(3)), label = row.splat(code.label), index = row.columnIndex();
  Column ignored = row.splat(code.ignored);
  Column x = loadWide(row, 0);
  double smoothing = getSmoothing().convertToDouble(), rest = smoothing / double(row.getColumns());
  row.store(0, [=](ElementBuilder &e) {
    Value softmax = e.unary<math::ExpOp>(e.sub(x(e), lse(e)));
    Value isLabel = e.compare(Predicate::Eq, index(e), label(e));
    Value target =
        e.select(isLabel, e.constant(softmax, 1 - smoothing + rest), e.constant(softmax, rest));
    Value result = e.mul(cotangent(e), e.sub(softmax, target));
    return narrow(e, e.select(ignored(e), e.constant(result, 0), result), element);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Partition of the vocabulary
//===----------------------------------------------------------------------===//

/// Values for partitioned rows: whether a row is ignored, whether its label is a column of any
/// rank, and which local logit is its label.
namespace {
struct LocalLabels {
  Value ignored, inRange, isLabel;
};
} // namespace

static LocalLabels partitionLabels(RowPartition &row, Value labels, Value logits,
                                   int64_t ignoreIndex) {
  Value wide = row.convert(labels, IntegerType::get(labels.getContext(), 64));
  Value ignored = row.compare(Predicate::Eq, wide, row.constant(wide, double(ignoreIndex)));
  Value low = row.compare(Predicate::Ge, wide, row.constant(wide, 0));
  Value high = row.compare(Predicate::Lt, wide, row.constant(wide, double(row.getGlobalColumns())));
  return {ignored, row.binary<AndOp>(low, high),
          row.compare(Predicate::Eq, row.columns(logits), row.spread(wide, logits))};
}

/// Fills the padding of unsharded rows with -inf. In the padding, the softmax is then 0, and so is
/// the gradient of a loss without smoothing.
static llvm::SmallVector<Value> withoutPaddedLogits(RowPartition &row, ValueRange locals) {
  llvm::SmallVector<Value> masked(locals);
  masked[0] = row.select(locals[0], -INFINITY);
  return masked;
}

FailureOr<llvm::SmallVector<Value>>
CrossEntropyOp::partition(PartitionBuilder &builder, ValueRange locals, TypeRange localResults) {
  RowPartition row(builder, builder.getOperandType(0), builder.getOperandSharding(0));
  if (!row.isSplit())
    return partitionByCloning(*this, builder, locals, localResults);
  if (row.isOnOneDevice() && getSmoothing().isZero())
    return partitionByCloning(*this, builder, withoutPaddedLogits(row, locals), localResults);
  Value raw = row.widen(locals[0]);
  Value x = row.select(raw, -INFINITY), known = row.select(raw, 0);
  Value max = row.reduce(ReductionKind::Max, x);
  Value sum =
      row.reduce(ReductionKind::Sum, row.unary<ExpOp>(row.binary<SubOp>(x, row.spread(max, x))));
  Value lse = row.binary<AddOp>(max, row.unary<LogOp>(sum));
  LocalLabels labels = partitionLabels(row, locals[1], x, getIgnoreIndexAttr().getInt());
  Value zero = row.constant(x, 0);
  Value loss = row.binary<SubOp>(
      lse, row.reduce(ReductionKind::Sum, row.choose(labels.isLabel, known, zero)));
  double smoothing = getSmoothing().convertToDouble();
  if (smoothing != 0) {
    Value total = row.reduce(ReductionKind::Sum, known);
    Value mean = row.binary<SubOp>(
        lse, row.binary<DivOp>(total, row.constant(total, row.getGlobalColumns())));
    loss = row.binary<AddOp>(row.binary<MulOp>(row.constant(loss, 1 - smoothing), loss),
                             row.binary<MulOp>(row.constant(loss, smoothing), mean));
  }
  loss = row.choose(labels.inRange, loss, row.constant(loss, NAN)); // no rank has the label
  return llvm::SmallVector<Value>{row.choose(labels.ignored, row.constant(loss, 0), loss), lse};
}

FailureOr<llvm::SmallVector<Value>> CrossEntropyGradOp::partition(PartitionBuilder &builder,
                                                                  ValueRange locals,
                                                                  TypeRange localResults) {
  RowPartition row(builder, builder.getOperandType(0), builder.getOperandSharding(0));
  if (!row.isSplit())
    return partitionByCloning(*this, builder, locals, localResults);
  if (row.isOnOneDevice() && getSmoothing().isZero()) {
    auto results =
        partitionByCloning(*this, builder, withoutPaddedLogits(row, locals), localResults);
    if (succeeded(results))
      builder.setZeroPadded(results->front(), builder.getOperandType(0).getRank() - 1);
    return results;
  }
  Value x = row.widen(locals[0]);
  LocalLabels labels = partitionLabels(row, locals[2], x, getIgnoreIndexAttr().getInt());
  double smoothing = getSmoothing().convertToDouble(),
         rest = smoothing / double(row.getGlobalColumns());
  Value softmax = row.unary<ExpOp>(row.binary<SubOp>(x, row.spread(locals[3], x)));
  Value target =
      row.choose(labels.isLabel, row.constant(x, 1 - smoothing + rest), row.constant(x, rest));
  Value cotangent = row.choose(labels.inRange, locals[1], row.constant(locals[1], NAN));
  Value result = row.binary<MulOp>(row.spread(cotangent, x), row.binary<SubOp>(softmax, target));
  result = row.choose(row.spread(labels.ignored, x), row.constant(x, 0), result);
  return llvm::SmallVector<Value>{row.convert(result, getElementTypeOrSelf(localResults[0]))};
}
