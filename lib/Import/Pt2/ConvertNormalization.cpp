// Layer norm, RMS norm, softmax and log-softmax.
#include "lib/Import/Pt2/Convert.h"
#include <cfloat>

using namespace mlir;

namespace parashard::import {
namespace {

/// y * weight + bias, each aligned at the last dims; null ones are left out.
Value applyAffine(NodeConverter &n, Value y, Value weight, Value bias) {
  if (weight)
    y = n.make<ps::MulOp>(y, n.broadcast(n.convert(weight, getElement(y)), getShape(y)));
  if (bias)
    y = n.make<ps::AddOp>(y, n.broadcast(n.convert(bias, getElement(y)), getShape(y)));
  return y;
}

Type getStatisticsType(NodeConverter &n, Value x) {
  return getElement(x).isF64() ? getElement(x) : n.f32();
}

/// Normalises over the last dims: several are read as one.
LogicalResult convertLayerNorm(NodeConverter &n) {
  Value x = n.tensor("input");
  SmallVector<int64_t> normalized = n.integers("normalized_shape");
  double epsilon = n.number("eps", 1e-5);
  if (n.failed())
    return failure();
  SmallVector<int64_t> shape(getShape(x)), flat(ArrayRef(shape).drop_back(normalized.size()));
  flat.push_back(llvm::product_of(normalized));
  Value rows = n.reshape(x, flat);
  auto rstdType = RankedTensorType::get(ArrayRef(flat).drop_back(), getStatisticsType(n, x));
  auto norm = n.make<ps::LayerNormOp>(getType(rows), rstdType, rows, n.b.getF64FloatAttr(epsilon));
  Value y = n.reshape(norm.getResult(), shape);
  y = applyAffine(n, y, n.optionalTensor("weight"), n.optionalTensor("bias"));
  if (n.failed() || failed(n.set(0, y)))
    return failure();
  return success(); // native_layer_norm's mean and rstd are only for its backward
}

/// x / sqrt(mean(x^2) + eps) * weight, in f32 for smaller floats as PyTorch does.
LogicalResult convertRmsNorm(NodeConverter &n) {
  Value x = n.tensor("input");
  SmallVector<int64_t> normalized = n.integers("normalized_shape");
  if (n.failed())
    return failure();
  Type element = getElement(x), wide = getStatisticsType(n, x);
  double epsilon = n.number("eps", wide.isF64() ? DBL_EPSILON : FLT_EPSILON);
  Value rows = n.convert(x, wide);
  int64_t rank = getRank(x);
  auto dims = llvm::to_vector(llvm::seq<int64_t>(rank - normalized.size(), rank));
  Value sum = n.reduce(ps::ReductionKind::Sum, n.make<ps::MulOp>(rows, rows), dims, true);
  Value mean = n.make<ps::DivOp>(sum, n.splat(getType(sum), double(llvm::product_of(normalized))));
  Value rstd = n.make<ps::RsqrtOp>(n.make<ps::AddOp>(mean, n.splat(getType(mean), epsilon)));
  Value y = n.make<ps::MulOp>(rows, n.broadcast(rstd, getShape(x)));
  y = applyAffine(n, n.convert(y, element), n.optionalTensor("weight"), Value());
  return n.failed() ? failure() : n.set(y);
}

/// Along any dim: others than the last are swapped there and back.
template <typename Op> LogicalResult convertSoftmax(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t dim = n.integer("dim");
  if (n.failed())
    return failure();
  x = n.convert(x, n.getResultType().getElementType());
  if (getRank(x) == 0)
    return n.fail("is over a tensor without dims, which is not supported");
  Value y = n.make<Op>(n.swapDims(x, dim, -1));
  return n.set(n.swapDims(y, dim, -1));
}

} // namespace

void addNormalizationConverters(ConverterTable &table) {
  table["aten.layer_norm"] = convertLayerNorm;
  table["aten.native_layer_norm"] = convertLayerNorm;
  table["aten.rms_norm"] = convertRmsNorm;
  table["aten._fused_rms_norm"] = convertRmsNorm;
  table["aten.softmax"] = convertSoftmax<ps::SoftmaxOp>;
  table["aten._softmax"] = convertSoftmax<ps::SoftmaxOp>;
  table["aten.log_softmax"] = convertSoftmax<ps::LogSoftmaxOp>;
  table["aten._log_softmax"] = convertSoftmax<ps::LogSoftmaxOp>;
}

} // namespace parashard::import
