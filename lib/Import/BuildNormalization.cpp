// Builds layer norm and RMS norm.
#include "lib/Import/BuildOps.h"
#include "shared/Counts.h"
#include <cfloat>

using namespace mlir;

namespace parashard::import {

Type getStatisticsType(TensorBuilder &n, Value x) {
  return getElement(x).isF64() ? getElement(x) : n.f32();
}

Value applyAffine(TensorBuilder &n, Value y, Value weight, Value bias) {
  if (weight)
    y = n.make<ps::MulOp>(y, n.broadcast(n.convert(weight, getElement(y)), getShape(y)));
  if (bias)
    y = n.make<ps::AddOp>(y, n.broadcast(n.convert(bias, getElement(y)), getShape(y)));
  return y;
}

static bool checkRank(TensorBuilder &n, Value x, int64_t numDims) {
  if (numDims >= 0 && numDims <= getRank(x))
    return true;
  (void)n.fail("normalizes the last " + describeCount(numDims, "dim") + " of " +
               debugString(x.getType()) + ", which has " + describeCount(getRank(x), "dim"));
  return false;
}

Value buildLayerNorm(TensorBuilder &n, Value x, int64_t numDims, double epsilon) {
  if (!checkRank(n, x, numDims))
    return x;
  SmallVector<int64_t> shape(getShape(x)), flat(ArrayRef(shape).drop_back(numDims));
  flat.push_back(llvm::product_of(ArrayRef(shape).take_back(numDims)));
  Value rows = n.reshape(x, flat);
  auto rstdType = RankedTensorType::get(ArrayRef(flat).drop_back(), getStatisticsType(n, x));
  auto norm = n.make<ps::LayerNormOp>(getType(rows), rstdType, rows, n.b.getF64FloatAttr(epsilon));
  return n.reshape(norm.getResult(), shape);
}

Value buildRmsNorm(TensorBuilder &n, Value x, int64_t numDims, std::optional<double> epsilon) {
  if (!checkRank(n, x, numDims))
    return x;
  Type element = getElement(x), wide = getStatisticsType(n, x);
  Value rows = n.convert(x, wide);
  int64_t rank = getRank(x);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(rank - numDims, rank));
  Value sum = n.reduce(ps::ReductionKind::Sum, n.make<ps::MulOp>(rows, rows), dims, true);
  Value mean = n.divide(sum, double(countElements(x, dims)));
  double least = epsilon.value_or(wide.isF64() ? DBL_EPSILON : FLT_EPSILON);
  Value rstd = n.make<ps::RsqrtOp>(n.make<ps::AddOp>(mean, n.splat(getType(mean), least)));
  Value y = n.make<ps::MulOp>(rows, n.broadcast(rstd, getShape(x)));
  return n.convert(y, element);
}

} // namespace parashard::import
