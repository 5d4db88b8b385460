// Converts losses of a prediction and a target of the same shape, such as mse_loss. A mean is built
// as sum / count, so that ps-autodiff finds the sum and the count (docs/levels/loss.md).
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {

namespace {

enum Reduction { kNone = 0, kMean = 1, kSum = 2 };

LogicalResult finish(NodeConverter &n, Value losses) {
  int64_t reduction = n.integer("reduction", kMean);
  if (n.failed() || reduction == kNone)
    return n.failed() ? failure() : n.set(losses);
  if (reduction == kSum)
    return n.set(sumAll(n, losses));
  return n.set(
      buildMean(n, losses, llvm::to_vector(llvm::seq<int64_t>(0, getRank(losses))), false));
}

/// A prediction and its target, broadcast to a common shape. Converts 16-bit floats to f32.
struct Pair {
  Value x, target;

  Pair(NodeConverter &n, StringRef left = "self", StringRef right = "target")
      : x(n.tensor(left)), target(n.tensor(right)) {
    if (n.failed())
      return;
    x = n.widen(x);
    if (getRank(target) > getRank(x) ||
        getType(target).getNumElements() > getType(x).getNumElements())
      x = n.broadcast(x, getShape(target));
    target = n.broadcast(n.convert(target, getElement(x)), getShape(x));
  }
};

/// Returns a tensor argument, broadcast to the shape of `like`, or null if it is missing.
Value getFactor(NodeConverter &n, StringRef name, Value like) {
  Value factor = n.optionalTensor(name);
  return factor ? n.broadcast(n.convert(factor, getElement(like)), getShape(like)) : Value();
}

Value scale(NodeConverter &n, Value x, double factor) {
  return factor == 1 ? x : n.make<ps::MulOp>(x, n.splat(getType(x), factor));
}

Value below(NodeConverter &n, ps::Predicate predicate, Value x, double bound) {
  return n.compare(predicate, x, n.splat(getType(x), bound));
}

/// Converts a loss with `kBuild`, which builds the loss of each element.
template <Value (*kBuild)(NodeConverter &, Value, Value)>
LogicalResult convertPairLoss(NodeConverter &n) {
  Pair pair(n);
  if (n.failed())
    return failure();
  Value losses = kBuild(n, pair.x, pair.target);
  return n.failed() ? failure() : finish(n, losses);
}

Value meanSquare(NodeConverter &n, Value x, Value target) {
  Value difference = n.make<ps::SubOp>(x, target);
  return n.make<ps::MulOp>(difference, difference);
}

Value absoluteDifference(NodeConverter &n, Value x, Value target) {
  return n.make<ps::AbsOp>(n.make<ps::SubOp>(x, target));
}

/// Builds d^2 / (2 beta) where d < beta, else d - beta / 2, for d = |x - target|.
Value smoothL1(NodeConverter &n, Value x, Value target) {
  double beta = n.number("beta", 1);
  Value d = absoluteDifference(n, x, target);
  if (beta == 0)
    return d;
  Value near = scale(n, n.make<ps::MulOp>(d, d), 0.5 / beta);
  Value far = n.make<ps::SubOp>(d, n.splat(getType(d), 0.5 * beta));
  return n.make<ps::SelectOp>(below(n, ps::Predicate::Lt, d, beta), near, far);
}

/// Builds d^2 / 2 where d <= delta, else delta * (d - delta / 2), for d = |x - target|.
Value huber(NodeConverter &n, Value x, Value target) {
  double delta = n.number("delta", 1);
  Value d = absoluteDifference(n, x, target);
  Value near = scale(n, n.make<ps::MulOp>(d, d), 0.5);
  Value far = scale(n, n.make<ps::SubOp>(d, n.splat(getType(d), 0.5 * delta)), delta);
  return n.make<ps::SelectOp>(below(n, ps::Predicate::Le, d, delta), near, far);
}

/// Builds x * log(y). Where x is 0, and y is infinite or not positive, the result is 0: y is
/// replaced by 1 before the logarithm, so that value and gradient are not NaN. Where x is 0 and y
/// is positive and finite, the gradient of x is log(y).
Value buildXlogy(NodeConverter &n, Value x, Value y) {
  Value zero = n.splat(getType(x), 0), one = n.splat(getType(x), 1);
  Value infinity = n.splat(getType(x), std::numeric_limits<double>::infinity());
  Value hasNoLog = n.make<ps::OrOp>(n.compare(ps::Predicate::Le, y, zero),
                                    n.compare(ps::Predicate::Eq, y, infinity));
  Value isSkipped = n.make<ps::AndOp>(n.compare(ps::Predicate::Eq, x, zero), hasNoLog);
  return n.make<ps::MulOp>(x, n.make<ps::LogOp>(n.make<ps::SelectOp>(isSkipped, one, y)));
}

/// Builds target * (log(target) - x) for log-probabilities x. With `log_target`, builds exp(target)
/// * (target - x).
Value klDivergence(NodeConverter &n, Value x, Value target) {
  if (n.boolean("log_target", false))
    return n.make<ps::MulOp>(n.make<ps::ExpOp>(target), n.make<ps::SubOp>(target, x));
  return n.make<ps::SubOp>(buildXlogy(n, target, target), n.make<ps::MulOp>(target, x));
}

Value weigh(NodeConverter &n, Value losses) {
  Value weight = getFactor(n, "weight", losses);
  return weight ? n.make<ps::MulOp>(losses, weight) : losses;
}

Value binaryCrossEntropy(NodeConverter &n, Value x, Value target) {
  return weigh(n, n.make<ps::BinaryCrossEntropyOp>(x, target));
}

/// Builds max(x, 0) - x * y + log1p(exp(-|x|)). With `pos_weight` p, the first and last terms are
/// multiplied by 1 - y + p * y, and the second term by p. The gradient of max(x, 0) at 0 is 1/2, so
/// that the gradient of the loss is sigmoid(x) - y also at x = 0.
Value binaryCrossEntropyWithLogits(NodeConverter &n, Value x, Value target) {
  Value zero = n.splat(getType(x), 0), one = n.splat(getType(x), 1);
  Value positive = n.make<ps::MaxOp>(x, zero);
  Value rest = n.make<ps::SoftplusOp>(n.make<ps::NegOp>(n.make<ps::AbsOp>(x)));
  Value weighted = target;
  if (Value weight = getFactor(n, "pos_weight", x)) {
    weighted = n.make<ps::MulOp>(target, weight);
    Value all = n.make<ps::AddOp>(n.make<ps::SubOp>(one, target), weighted);
    positive = n.make<ps::MulOp>(all, positive);
    rest = n.make<ps::MulOp>(all, rest);
  }
  Value gain = n.make<ps::MulOp>(x, weighted);
  return weigh(n, n.make<ps::AddOp>(n.make<ps::SubOp>(positive, gain), rest));
}

/// Builds log(1 + exp(-y * x)).
Value softMargin(NodeConverter &n, Value x, Value target) {
  return n.make<ps::SoftplusOp>(n.make<ps::NegOp>(n.make<ps::MulOp>(target, x)));
}

LogicalResult convertXlogy(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  auto get = [&](StringRef name) {
    return n.isTensor(name)
               ? n.broadcast(n.convert(n.tensor(name), type.getElementType()), type.getShape())
               : n.splat(type, n.scalar(name).value);
  };
  Value x = get("self"), y = get("other");
  return n.failed() ? failure() : n.set(buildXlogy(n, x, y));
}

} // namespace

void addPairLossConverters(ConverterTable &table) {
  table["aten.mse_loss"] = convertPairLoss<meanSquare>;
  table["aten.l1_loss"] = convertPairLoss<absoluteDifference>;
  table["aten.smooth_l1_loss"] = convertPairLoss<smoothL1>;
  table["aten.huber_loss"] = convertPairLoss<huber>;
  table["aten.kl_div"] = convertPairLoss<klDivergence>;
  table["aten.binary_cross_entropy"] = convertPairLoss<binaryCrossEntropy>;
  table["aten.binary_cross_entropy_with_logits"] = convertPairLoss<binaryCrossEntropyWithLogits>;
  table["aten.soft_margin_loss"] = convertPairLoss<softMargin>;
  table["aten.xlogy"] = convertXlogy;
}

} // namespace parashard::import
