// Converts norms, variances and ops that use norms. As in PyTorch, the gradient of a norm at 0 is
// 0.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Dims.h"
#include <cmath>

using namespace mlir;

namespace parashard::import {
namespace {

Value power(NodeConverter &n, Value x, double exponent) {
  return n.make<ps::PowOp>(x, n.splat(getType(x), exponent));
}

/// Builds a root of a nonnegative sum. Elements that are 0 are replaced by 1 before `build`,
/// because the infinite derivative at 0 would make the gradient NaN.
template <typename Fn> Value rootOf(NodeConverter &n, Value x, Fn build) {
  Value zero = n.splat(getType(x), 0), one = n.splat(getType(x), 1);
  Value isZero = n.compare(ps::Predicate::Eq, x, zero);
  Value root = build(n.make<ps::SelectOp>(isZero, one, x));
  return n.make<ps::SelectOp>(isZero, zero, root);
}

Value squareRoot(NodeConverter &n, Value x) {
  return rootOf(n, x, [&](Value y) -> Value { return n.make<ps::SqrtOp>(y); });
}

/// Builds the p-norm over dims.
Value buildNorm(NodeConverter &n, Value x, double p, ArrayRef<int64_t> dims, bool keepDims) {
  auto reduce = [&](ps::ReductionKind kind, Value value) {
    return n.reduce(kind, value, dims, keepDims);
  };
  if (p == 2)
    return squareRoot(n, reduce(ps::ReductionKind::Sum, n.make<ps::MulOp>(x, x)));
  if (p == 0) {
    Value counts = n.compare(ps::Predicate::Ne, x, n.splat(getType(x), 0));
    return reduce(ps::ReductionKind::Sum, n.convert(counts, getElement(x)));
  }
  Value sizes = n.make<ps::AbsOp>(x);
  if (std::isinf(p))
    return reduce(p > 0 ? ps::ReductionKind::Max : ps::ReductionKind::Min, sizes);
  if (p == 1)
    return reduce(ps::ReductionKind::Sum, sizes);
  return rootOf(n, reduce(ps::ReductionKind::Sum, power(n, sizes, p)),
                [&](Value y) { return power(n, y, 1 / p); });
}

/// Returns the order of the norm: the argument `ord` or `p`, by default 2.
double getOrder(NodeConverter &n) { return n.number(n.find("ord") ? "ord" : "p", 2); }

LogicalResult convertNorm(NodeConverter &n) {
  Value x = n.tensor("self");
  double p = getOrder(n);
  if (n.failed())
    return failure();
  x = n.widen(n.convert(x, n.getResultType().getElementType()));
  return n.set(buildNorm(n, x, p, n.reducedDims(x), n.boolean("keepdim", false)));
}

/// Converts a vector norm, or the norm of all elements. The only supported matrix norm is the
/// Frobenius norm.
LogicalResult convertLinalgNorm(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  bool isMatrix = n.has("ord") && n.string("ord").empty() &&
                  (n.has("dim") ? n.integers("dim").size() : getRank(x)) > 1;
  if (isMatrix)
    return n.fail("is a matrix norm other than the Frobenius norm, which is not supported");
  if (!n.string("ord").empty() && n.string("ord") != "fro")
    return n.fail("is the norm '" + n.string("ord") + "', which is not supported; expected 'fro'");
  double p = n.string("ord").empty() ? n.number("ord", 2) : 2;
  x = n.widen(n.convert(x, n.getResultType().getElementType()));
  return n.set(buildNorm(n, x, p, n.reducedDims(x), n.boolean("keepdim", false)));
}

/// Builds the p-norm of x1 - x2 + eps over the last dim.
LogicalResult convertPairwiseDistance(NodeConverter &n) {
  RankedTensorType type = n.getResultType();
  Value x = n.tensor("x1"), y = n.tensor("x2");
  double p = n.number("p", 2), epsilon = n.number("eps", 1e-6);
  if (n.failed())
    return failure();
  bool keepDims = n.boolean("keepdim", false);
  SmallVector<int64_t> shape(type.getShape());
  if (keepDims)
    shape.pop_back();
  shape.push_back(std::max(getShape(x).back(), getShape(y).back()));
  Value difference = n.make<ps::SubOp>(n.broadcast(x, shape), n.broadcast(y, shape));
  difference = n.make<ps::AddOp>(difference, n.splat(getType(difference), epsilon));
  return n.failed() ? failure()
                    : n.set(buildNorm(n, difference, p, {int64_t(shape.size()) - 1}, keepDims));
}

LogicalResult convertDistance(NodeConverter &n) {
  Value x = n.tensor("self"), y = n.tensor("other");
  double p = n.number("p", 2);
  if (n.failed())
    return failure();
  Value difference = n.make<ps::SubOp>(x, n.broadcast(y, getShape(x)));
  return n.failed() ? failure()
                    : n.set(buildNorm(n, difference, p, n.reducedDims(difference), false));
}

struct Moments {
  Value mean, variance;
};

Moments buildMoments(NodeConverter &n, Value x) {
  SmallVector<int64_t> dims = n.reducedDims(x);
  bool keepDims = n.boolean("keepdim", false);
  double correction =
      n.has("correction") ? n.number("correction", 1) : double(n.boolean("unbiased", true));
  double count = double(countElements(x, dims));
  Value mean = n.divide(n.reduce(ps::ReductionKind::Sum, x, dims, true), count);
  Value centered = n.make<ps::SubOp>(x, n.broadcast(mean, getShape(x)));
  Value square = n.make<ps::MulOp>(centered, centered);
  Value sum = n.reduce(ps::ReductionKind::Sum, square, dims, keepDims);
  return {n.reshape(mean, getShape(sum)), n.divide(sum, std::max(count - correction, 0.0))};
}

/// Defines the variance or standard deviation, and the mean if the op returns the mean.
template <bool kRoot> LogicalResult convertVariance(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  Moments moments = buildMoments(n, n.widen(x));
  if (n.failed() || failed(n.set(0, kRoot ? squareRoot(n, moments.variance) : moments.variance)))
    return failure();
  return n.getNumResults() > 1 ? n.set(1, moments.mean) : success();
}

/// Builds the sum over a dim of x1 / max(|x1|, eps) * x2 / max(|x2|, eps).
LogicalResult convertCosineSimilarity(NodeConverter &n) {
  Value x = n.tensor("x1"), y = n.tensor("x2");
  double epsilon = n.number("eps", 1e-8);
  if (n.failed())
    return failure();
  SmallVector<int64_t> shape = n.commonShape(x, y);
  std::optional<int64_t> found = findDim(n, "dim", shape.size(), 1);
  if (!found)
    return failure();
  int64_t dim = *found;
  auto normalize = [&](Value value) -> Value {
    value = n.broadcast(n.widen(value), shape);
    Value norm = buildNorm(n, value, 2, {dim}, true);
    Value least = n.splat(getType(norm), epsilon);
    Value isSmall = n.compare(ps::Predicate::Lt, norm, least);
    norm = n.make<ps::SelectOp>(isSmall, least, norm);
    return n.make<ps::DivOp>(value, n.broadcast(norm, shape));
  };
  Value product = n.make<ps::MulOp>(normalize(x), normalize(y));
  return n.failed() ? failure() : n.set(n.reduce(ps::ReductionKind::Sum, product, {dim}, false));
}

/// Converts logsumexp. `buildLogSumExp` uses a cross-entropy whose classes are the reduced dims.
LogicalResult convertLogSumExp(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  x = n.widen(x);
  n.markTypeOnly({"keepdim"});
  Value sums = buildLogSumExp(n, x, n.reducedDims(x));
  return n.failed() ? failure() : n.set(n.reshape(sums, n.getResultType().getShape()));
}

} // namespace

void addNormConverters(ConverterTable &table) {
  table["aten.norm"] = convertNorm;
  table["aten.linalg_vector_norm"] = convertNorm;
  table["aten.linalg_norm"] = convertLinalgNorm;
  table["aten.frobenius_norm"] = convertNorm;
  table["aten.dist"] = convertDistance;
  table["aten.pairwise_distance"] = convertPairwiseDistance;
  table["aten.var"] = convertVariance<false>;
  table["aten.var_mean"] = convertVariance<false>;
  table["aten.std"] = convertVariance<true>;
  table["aten.std_mean"] = convertVariance<true>;
  table["aten.cosine_similarity"] = convertCosineSimilarity;
  table["aten.logsumexp"] = convertLogSumExp;
}

} // namespace parashard::import
