// Builds cross-entropy losses. A mean is built as sum / count, so that ps-autodiff finds the sum
// and the count (docs/levels/loss.md).
#include "lib/Import/BuildOps.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// The ignored label of a loss whose model specifies none. Data does not contain this label;
/// programs use it to pad a batch.
constexpr int64_t kNoLabel = std::numeric_limits<int32_t>::min();

/// Moves the classes from dim 1 (dim 0 for a single sample) to the end.
Value moveClassesLast(TensorBuilder &n, Value x) {
  int64_t rank = getRank(x);
  if (rank <= 2)
    return x;
  SmallVector<int64_t> permutation{0};
  for (int64_t i = 2; i < rank; ++i)
    permutation.push_back(i);
  permutation.push_back(1);
  return n.transpose(x, permutation);
}

/// Removes `logits.view(-1, V)` and `labels.view(-1)` if both merge the same dims.
void unmergeRows(Value &logits, Value &labels) {
  auto logitsView = logits.getDefiningOp<ps::ReshapeOp>(),
       labelsView = labels.getDefiningOp<ps::ReshapeOp>();
  if (!logitsView || !labelsView || getRank(logits) != 2 || getRank(labels) != 1)
    return;
  ArrayRef<int64_t> from = getShape(logitsView.getOperand());
  if (from.empty() || from.back() != getShape(logits).back() ||
      from.drop_back() != getShape(labelsView.getOperand()))
    return;
  logits = logitsView.getOperand();
  labels = labelsView.getOperand();
}

/// Builds the loss of each row, in f32 for 16-bit logits.
Value buildCrossEntropy(TensorBuilder &n, Value logits, Value labels, int64_t ignore,
                        double smoothing) {
  return n.make<ps::CrossEntropyOp>(logits, labels, ignore, smoothing).getLoss();
}

/// Returns 1 for each counted label and 0 for each ignored label, with the element type `element`.
/// With class weights, returns the weight of the label's class instead of 1.
Value buildCounts(TensorBuilder &n, Value labels, int64_t ignore, Value weight, Type element) {
  Value counted = n.compare(ps::Predicate::Ne, labels, n.splat(getType(labels), double(ignore)));
  Value ones = n.convert(counted, element);
  if (!weight)
    return ones;
  SmallVector<int64_t> shape(getShape(labels)), column(shape);
  shape.push_back(getShape(weight)[0]);
  column.push_back(1);
  Value spread = n.broadcast(n.convert(weight, element), shape);
  Value chosen = n.reshape(n.takePosition(spread, n.reshape(labels, column), getRank(labels)),
                           getShape(labels));
  return n.make<ps::SelectOp>(counted, chosen, n.splat(getType(chosen), 0));
}

/// Returns the sum over classes (the last dim) of -weight * target * log(softmax(logits)). A null
/// weight or target means 1.
Value buildSoftCrossEntropy(TensorBuilder &n, Value logits, Value target, Value weight) {
  Value terms = n.make<ps::LogSoftmaxOp>(logits);
  if (target)
    terms = n.make<ps::MulOp>(terms, target);
  if (weight)
    terms = n.make<ps::MulOp>(terms,
                              n.broadcast(n.convert(weight, getElement(terms)), getShape(terms)));
  Value sum = n.reduce(ps::ReductionKind::Sum, terms, {getRank(terms) - 1}, false);
  return n.make<ps::NegOp>(sum);
}

Value scale(TensorBuilder &n, Value x, double factor) {
  return n.make<ps::MulOp>(x, n.splat(getType(x), factor));
}

/// Returns the loss of each row, multiplied by the weight of its label's class (`counts`). With
/// label smoothing, also adds the losses of all classes, each multiplied by the weight of its
/// class.
Value buildWeightedCrossEntropy(TensorBuilder &n, Value logits, Value labels, int64_t ignore,
                                double smoothing, Value weight, Value counts) {
  Value rows = n.make<ps::MulOp>(buildCrossEntropy(n, logits, labels, ignore, 0), counts);
  if (smoothing == 0)
    return rows;
  Value all = buildSoftCrossEntropy(n, n.widen(logits), Value(), weight);
  Value counted = n.compare(ps::Predicate::Ne, labels, n.splat(getType(labels), double(ignore)));
  all = n.make<ps::SelectOp>(counted, all, n.splat(getType(all), 0));
  return n.make<ps::AddOp>(scale(n, rows, 1 - smoothing),
                           scale(n, all, smoothing / double(getShape(logits).back())));
}

/// Matches `where(labels != ignore, labels, 0)`. Returns the labels and sets `ignore`; returns null
/// for other expressions.
Value getSafeLabels(Value index, int64_t &ignore) {
  auto select = index.getDefiningOp<ps::SelectOp>();
  auto compare = select ? select.getCondition().getDefiningOp<ps::CompareOp>() : ps::CompareOp();
  if (!compare || compare.getPredicate() != ps::Predicate::Ne ||
      compare.getLhs() != select.getOnTrue())
    return {};
  auto constant = compare.getRhs().getDefiningOp<ps::ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (!splat)
    return {};
  ignore = splat.getSplatValue<APInt>().getSExtValue();
  return select.getOnTrue();
}

/// Reduces the losses of rows. A mean divides by the sum of `counts`. Converts the result to the
/// element type of the logits.
Value reduceLoss(TensorBuilder &n, Value rows, Value counts, const ClassLoss &loss) {
  if (loss.reduction != LossReduction::None)
    rows = sumAll(n, rows);
  if (loss.reduction == LossReduction::Mean)
    rows = n.make<ps::DivOp>(rows, sumAll(n, counts));
  return n.convert(rows, getElement(loss.logits));
}

/// Builds the loss for labels that are class probabilities. A mean divides by the number of rows,
/// even with class weights.
Value buildSoftLabelLoss(TensorBuilder &n, const ClassLoss &loss) {
  Value logits = n.widen(moveClassesLast(n, loss.logits));
  Value target = n.convert(moveClassesLast(n, loss.labels), getElement(logits));
  if (loss.smoothing != 0) {
    Value share = n.splat(getType(target), loss.smoothing / double(getShape(target).back()));
    target = n.make<ps::AddOp>(scale(n, target, 1 - loss.smoothing), share);
  }
  Value rows = buildSoftCrossEntropy(n, logits, target, loss.weight);
  return reduceLoss(n, rows, n.splat(getType(rows), 1), loss);
}

} // namespace

Value sumAll(TensorBuilder &n, Value x) {
  return n.reduce(ps::ReductionKind::Sum, x, llvm::to_vector(llvm::seq<int64_t>(0, getRank(x))),
                  false);
}

/// Fails unless labels and weight have as many dims as the logits require.
static bool checkClassLoss(TensorBuilder &n, const ClassLoss &loss) {
  int64_t rank = getRank(loss.logits);
  bool fits = rank > 0 && (isFloat(loss.labels) ? getShape(loss.labels) == getShape(loss.logits)
                                                : getRank(loss.labels) == rank - 1);
  if (fits && (!loss.weight || getRank(loss.weight) == 1))
    return true;
  (void)n.fail(
      "has labels " + debugString(loss.labels.getType()) + " for logits " +
      debugString(loss.logits.getType()) +
      "; expected integer labels without the class dim, or class probabilities of the same "
      "shape, and a weight with 1 dim");
  return false;
}

Value buildClassLoss(TensorBuilder &n, const ClassLoss &loss) {
  if (!checkClassLoss(n, loss))
    return loss.logits;
  if (isFloat(loss.labels))
    return buildSoftLabelLoss(n, loss);
  Value logits = moveClassesLast(n, loss.logits), labels = loss.labels;
  if (loss.reduction != LossReduction::None)
    unmergeRows(logits, labels);
  Value counts = buildCounts(n, labels, loss.ignore, loss.weight, getStatisticsType(n, logits));
  Value rows = loss.weight ? buildWeightedCrossEntropy(n, logits, labels, loss.ignore,
                                                       loss.smoothing, loss.weight, counts)
                           : buildCrossEntropy(n, logits, labels, loss.ignore, loss.smoothing);
  return reduceLoss(n, rows, counts, loss);
}

NllLoss buildNllLoss(TensorBuilder &n, const ClassLoss &loss) {
  if (!checkClassLoss(n, loss))
    return {};
  auto softmax = loss.logits.getDefiningOp<ps::LogSoftmaxOp>();
  if (!softmax || getRank(loss.logits) > 2) {
    (void)n.fail(
        "needs a log_softmax over the classes in the last dim, which is the only supported form");
    return {};
  }
  Value logits = softmax.getOperand(), labels = loss.labels;
  if (loss.reduction != LossReduction::None)
    unmergeRows(logits, labels);
  Value counts = buildCounts(n, labels, loss.ignore, loss.weight, getStatisticsType(n, logits));
  Value rows = buildCrossEntropy(n, logits, labels, loss.ignore, 0);
  if (loss.weight)
    rows = n.make<ps::MulOp>(rows, counts);
  return {reduceLoss(n, rows, counts, loss), counts};
}

Value buildLabelGather(TensorBuilder &n, ps::LogSoftmaxOp softmax, Value index) {
  auto view = index.getDefiningOp<ps::ReshapeOp>();
  Value labels = view ? view.getOperand() : Value();
  SmallVector<int64_t> rowShape(getShape(index).drop_back());
  if (!labels || getShape(labels) != ArrayRef(rowShape))
    labels = n.reshape(index, rowShape);
  int64_t ignore = kNoLabel;
  if (Value safe = getSafeLabels(labels, ignore))
    labels = safe;
  Value logits = softmax.getOperand();
  unmergeRows(logits, labels);
  Value rows = buildCrossEntropy(n, logits, labels, ignore, 0);
  return n.reshape(n.convert(n.make<ps::NegOp>(rows), getElement(logits)), getShape(index));
}

} // namespace parashard::import
