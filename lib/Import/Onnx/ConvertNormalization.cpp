// Norms, softmax and log-softmax.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// The number of last dims from `axis` on.
int64_t countNormalized(OnnxNode &n, Value x) { return getRank(x) - n.axis(-1, getRank(x)); }

LogicalResult convertLayerNormalization(OnnxNode &n) {
  Value x = n.input(0), weight = n.optionalInput(1), bias = n.optionalInput(2);
  if (n.failed() || failed(n.onlyResults(1, "mean and deviation")))
    return failure();
  int64_t count = countNormalized(n, x);
  if (n.failed())
    return failure();
  Value y = buildLayerNorm(n, x, count, n.number("epsilon", 1e-5));
  y = applyAffine(n, y, weight, bias);
  return n.failed() ? failure() : n.set(y);
}

LogicalResult convertRmsNormalization(OnnxNode &n) {
  Value x = n.input(0), weight = n.optionalInput(1);
  if (n.failed())
    return failure();
  int64_t count = countNormalized(n, x);
  if (n.failed())
    return failure();
  Value y = buildRmsNorm(n, x, count, n.number("epsilon", 1e-5));
  y = applyAffine(n, y, weight, Value());
  return n.failed() ? failure() : n.set(y);
}

template <typename Op> LogicalResult convertSoftmax(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  int64_t dim = n.axis(-1, getRank(x));
  return n.failed() ? failure() : n.set(buildAlongDim<Op>(n, x, dim));
}

/// A vector over the channels, which stand in dim 1, in the shape of `x`.
Value overChannels(OnnxNode &n, Value vector, Value x) {
  SmallVector<int64_t> shape(getRank(x), 1);
  shape[1] = getShape(x)[1];
  return n.broadcast(n.reshape(n.convert(vector, getElement(x)), shape), getShape(x));
}

/// By running statistics, as in evaluation.
LogicalResult convertBatchNormalization(OnnxNode &n) {
  SmallVector<Value> in = n.inputs();
  if (n.failed() || in.size() != 5 || getRank(in[0]) < 2)
    return n.fail("has other operands than x, scale, bias, mean and variance");
  if (n.integer("training_mode", 0))
    return n.fail("normalises by the batch's own statistics, which is not supported from ONNX; "
                  "export the model with torch.export");
  Value x = in[0], mean = overChannels(n, in[3], x);
  Value variance = n.make<ps::AddOp>(in[4], n.splat(getType(in[4]), n.number("epsilon", 1e-5)));
  Value rstd = overChannels(n, n.make<ps::RsqrtOp>(variance), x);
  Value y = n.make<ps::MulOp>(n.make<ps::SubOp>(x, mean), rstd);
  y = n.make<ps::MulOp>(y, overChannels(n, in[1], x));
  y = n.make<ps::AddOp>(y, overChannels(n, in[2], x));
  return n.failed() ? failure() : n.set(y);
}

} // namespace

void addOnnxNormalizationConverters(OnnxConverterTable &table) {
  table["LayerNormalization"] = convertLayerNormalization;
  table["RMSNormalization"] = convertRmsNormalization;
  table["BatchNormalization"] = convertBatchNormalization;
  table["Softmax"] = convertSoftmax<ps::SoftmaxOp>;
  table["LogSoftmax"] = convertSoftmax<ps::LogSoftmaxOp>;
}

} // namespace parashard::import
