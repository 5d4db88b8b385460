// Converts layer norm, RMS norm, softmax and log-softmax.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertLayerNorm(NodeConverter &n) {
  Value x = n.tensor("input");
  SmallVector<int64_t> normalized = n.integers("normalized_shape");
  double epsilon = n.number("eps", 1e-5);
  n.markWithoutEffect({"cudnn_enable"});
  if (n.failed())
    return failure();
  Value y = buildLayerNorm(n, x, normalized.size(), epsilon);
  y = applyAffine(n, y, n.optionalTensor("weight"), n.optionalTensor("bias"));
  if (n.failed() || failed(n.set(0, y)))
    return failure();
  return success(); // native_layer_norm's mean and rstd are only used by its backward
}

LogicalResult convertRmsNorm(NodeConverter &n) {
  Value x = n.tensor("input");
  SmallVector<int64_t> normalized = n.integers("normalized_shape");
  if (n.failed())
    return failure();
  std::optional<double> epsilon;
  if (n.has("eps"))
    epsilon = n.number("eps", 0);
  Value y = buildRmsNorm(n, x, normalized.size(), epsilon);
  y = applyAffine(n, y, n.optionalTensor("weight"), Value());
  return n.failed() ? failure() : n.set(y);
}

template <typename Op> LogicalResult convertSoftmax(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t dim = n.integer("dim");
  n.markTypeOnly({"half_to_float"});
  if (n.failed())
    return failure();
  x = n.convert(x, n.getResultType().getElementType());
  if (getRank(x) == 0)
    return n.fail("is over a tensor without dims, which is not supported");
  return n.set(buildAlongDim<Op>(n, x, dim));
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
