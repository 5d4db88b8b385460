// Losses. A mean over rows is the sum divided by the count, so that training finds both
// (docs/levels.md).
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

enum Reduction { kNone = 0, kMean = 1, kSum = 2 };

SmallVector<int64_t> allDims(Value x) { return llvm::to_vector(llvm::seq<int64_t>(0, getRank(x))); }

Value sumAll(NodeConverter &n, Value x) {
  return n.reduce(ps::ReductionKind::Sum, x, allDims(x), false);
}

/// Classes stand in dim 1 (dim 0 of one sample): they are moved to the end.
Value moveClassesLast(NodeConverter &n, Value x) {
  int64_t rank = getRank(x);
  if (rank <= 2)
    return x;
  SmallVector<int64_t> permutation{0};
  for (int64_t i = 2; i < rank; ++i)
    permutation.push_back(i);
  permutation.push_back(1);
  return n.transpose(x, permutation);
}

/// Undoes `logits.view(-1, V)` and `labels.view(-1)` when both merged the same dims.
void unmergeRows(Value &logits, Value &labels) {
  auto logitsView = logits.getDefiningOp<ps::ReshapeOp>(),
       labelsView = labels.getDefiningOp<ps::ReshapeOp>();
  if (!logitsView || !labelsView || getRank(logits) != 2 || getRank(labels) != 1)
    return;
  ArrayRef<int64_t> from = getShape(logitsView.getOperand());
  if (from.back() != getShape(logits).back() ||
      from.drop_back() != getShape(labelsView.getOperand()))
    return;
  logits = logitsView.getOperand();
  labels = labelsView.getOperand();
}

Value buildCrossEntropy(NodeConverter &n, Value logits, Value labels, int64_t ignore,
                        double smoothing) {
  auto type = RankedTensorType::get(getShape(labels), getElement(logits));
  auto op = n.make<ps::CrossEntropyOp>(type, type, logits, labels, n.b.getI64IntegerAttr(ignore),
                                       n.b.getF64FloatAttr(smoothing));
  return op.getLoss();
}

/// The number of labels that count, as a float.
Value countLabels(NodeConverter &n, Value labels, int64_t ignore, Type element) {
  Value counts = n.compare(ps::Predicate::Ne, labels, n.splat(getType(labels), double(ignore)));
  return sumAll(n, n.convert(counts, element));
}

LogicalResult finishLoss(NodeConverter &n, Value rows, Value labels, int64_t ignore,
                         int64_t reduction) {
  if (reduction == kNone)
    return n.set(n.reshape(rows, n.getResultType().getShape()));
  Value sum = sumAll(n, rows);
  if (reduction == kSum)
    return n.set(sum);
  return n.set(n.make<ps::DivOp>(sum, countLabels(n, labels, ignore, getElement(sum))));
}

LogicalResult convertCrossEntropy(NodeConverter &n) {
  Value logits = n.tensor("self"), labels = n.tensor("target");
  int64_t ignore = n.integer("ignore_index", -100), reduction = n.integer("reduction", kMean);
  double smoothing = n.number("label_smoothing", 0);
  if (n.failed())
    return failure();
  if (n.has("weight"))
    return n.fail("has class weights, which are not supported; weight the rows' losses instead");
  if (isFloat(labels))
    return n.fail("takes probabilities as labels, which is not supported; expected class numbers");
  logits = moveClassesLast(n, logits);
  if (reduction != kNone)
    unmergeRows(logits, labels);
  Value rows = buildCrossEntropy(n, logits, labels, ignore, smoothing);
  return finishLoss(n, rows, labels, ignore, reduction);
}

/// Negative log-likelihood of log-probabilities: a cross-entropy of what the log-softmax was taken
/// of.
LogicalResult convertNll(NodeConverter &n) {
  Value logProbabilities = n.tensor("self"), labels = n.tensor("target");
  int64_t ignore = n.integer("ignore_index", -100), reduction = n.integer("reduction", kMean);
  if (n.failed())
    return failure();
  if (n.has("weight"))
    return n.fail("has class weights, which are not supported; weight the rows' losses instead");
  auto softmax = logProbabilities.getDefiningOp<ps::LogSoftmaxOp>();
  if (!softmax || getRank(logProbabilities) > 2)
    return n.fail("is not of a log_softmax over the classes in the last dim, which is the only "
                  "form supported");
  Value logits = softmax.getOperand();
  if (reduction != kNone)
    unmergeRows(logits, labels);
  Value rows = buildCrossEntropy(n, logits, labels, ignore, 0);
  if (n.getNumResults() > 1 && n.isUsed(1) && reduction == kMean &&
      failed(n.set(1, countLabels(n, labels, ignore, getElement(rows)))))
    return failure();
  return finishLoss(n, rows, labels, ignore, reduction);
}

/// Labels of `where(labels != ignore, labels, 0)`; null when `index` is something else.
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

/// gather(log_softmax(x), -1, labels[..., None]): the negated cross-entropy, as a decomposed loss
/// has it. Ignored rows give 0 here; the decomposition selects 0 for them too.
LogicalResult convertGather(NodeConverter &n) {
  Value self = n.tensor("self"), index = n.tensor("index");
  if (n.failed())
    return failure();
  auto softmax = self.getDefiningOp<ps::LogSoftmaxOp>();
  int64_t rank = getRank(self);
  if (!softmax || n.wrapDim(n.integer("dim"), rank) != rank - 1 || getShape(index).back() != 1)
    return n.fail("is only supported as the choice of one class of a log_softmax");
  auto view = index.getDefiningOp<ps::ReshapeOp>();
  Value labels = view ? view.getOperand() : Value();
  SmallVector<int64_t> rowShape(getShape(index).drop_back());
  if (!labels || getShape(labels) != ArrayRef(rowShape))
    labels = n.reshape(index, rowShape);
  int64_t ignore = -100;
  if (Value safe = getSafeLabels(labels, ignore))
    labels = safe;
  Value logits = softmax.getOperand();
  unmergeRows(logits, labels);
  Value rows = buildCrossEntropy(n, logits, labels, ignore, 0);
  Value picked = n.make<ps::NegOp>(rows);
  return n.set(n.reshape(picked, getShape(index)));
}

LogicalResult convertMse(NodeConverter &n) {
  Value x = n.tensor("self"), target = n.tensor("target");
  int64_t reduction = n.integer("reduction", kMean);
  if (n.failed())
    return failure();
  Value difference =
      n.make<ps::SubOp>(x, n.convert(n.broadcast(target, getShape(x)), getElement(x)));
  Value square = n.make<ps::MulOp>(difference, difference);
  if (n.failed() || reduction == kNone)
    return n.failed() ? failure() : n.set(square);
  Value sum = sumAll(n, square);
  if (reduction == kSum)
    return n.set(sum);
  return n.set(n.make<ps::DivOp>(sum, n.splat(getType(sum), double(getType(x).getNumElements()))));
}

} // namespace

void addLossConverters(ConverterTable &table) {
  table["aten.cross_entropy_loss"] = convertCrossEntropy;
  table["aten.nll_loss_nd"] = convertNll;
  table["aten.nll_loss"] = convertNll;
  table["aten.nll_loss_forward"] = convertNll;
  table["aten.gather"] = convertGather;
  table["aten.mse_loss"] = convertMse;
}

} // namespace parashard::import
