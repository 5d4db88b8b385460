// Converts norms, softmax and log-softmax.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Fails if the node requires statistics in another type than f32. f64 is only supported for f64
/// operands.
void checkStashType(OnnxNode &n, Value x) {
  constexpr int64_t kFloat = 1, kDouble = 11;
  int64_t type = n.integer("stash_type", kFloat);
  if (type != kFloat && !(type == kDouble && getElement(x).isF64()))
    (void)n.fail("computes its statistics in " + getOnnxDtypeName(type) +
                 ", which is not supported; export it with stash_type = 1");
}

/// Returns the number of dims from `axis` to the last.
int64_t countNormalized(OnnxNode &n, Value x) { return getRank(x) - n.axis(-1, getRank(x)); }

LogicalResult convertLayerNormalization(OnnxNode &n) {
  Value x = n.input(0), weight = n.optionalInput(1), bias = n.optionalInput(2);
  if (n.failed() || failed(n.onlyResults(1, "mean and deviation")))
    return failure();
  checkStashType(n, x);
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
  checkStashType(n, x);
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

/// Converts a batch norm: with running statistics, or with batch statistics (training_mode = 1).
LogicalResult convertBatchNormalization(OnnxNode &n) {
  SmallVector<Value> in = n.inputs();
  if (n.failed() || in.size() != 5)
    return n.fail("needs the operands x, scale, bias, mean and variance");
  BatchNorm norm{in[0], in[1], in[2], in[3], in[4], n.number("epsilon", 1e-5)};
  norm.isTraining = n.integer("training_mode", 0);
  n.markWithoutEffect({"momentum"}); // only affects new running statistics, which are not supported
  if (norm.isTraining && failed(n.onlyResults(1, "new running statistics, with training_mode = 1")))
    return failure();
  if (norm.isTraining) // uses batch statistics in evaluation, too
    norm.runningMean = norm.runningVariance = Value();
  BatchNormResult built = buildBatchNorm(n, norm);
  return n.failed() ? failure() : n.set(built.result);
}

LogicalResult convertInstanceNormalization(OnnxNode &n) {
  Value x = n.input(0), weight = n.input(1), bias = n.input(2);
  if (n.failed() || getRank(x) < 3)
    return n.fail("has the operand type " + debugString(x.getType()) +
                  "; expected batch, channels and spatial dims");
  Value y = buildGroupNorm(n, x, getShape(x)[1], n.number("epsilon", 1e-5));
  y = applyToChannels(n, y, weight, bias);
  return n.failed() ? failure() : n.set(y);
}

/// Repeats the element of each group for all channels of the group.
Value repeatOverGroups(OnnxNode &n, Value vector, int64_t channels) {
  if (getRank(vector) != 1 || getShape(vector)[0] < 1 || channels % getShape(vector)[0] != 0) {
    (void)n.fail("has a scale or bias " + debugString(vector.getType()) + " for " +
                 describeCount(channels, "channel") +
                 "; expected one element per group of channels");
    return vector;
  }
  int64_t groups = getShape(vector)[0];
  vector = n.broadcast(n.reshape(vector, {groups, 1}), {groups, channels / groups});
  return n.reshape(vector, {channels});
}

/// Converts a group norm. Scale and bias have one element per group before opset 21, and one per
/// channel since then.
LogicalResult convertGroupNormalization(OnnxNode &n) {
  Value x = n.input(0), weight = n.input(1), bias = n.input(2);
  if (n.failed() || getRank(x) < 2)
    return n.fail("has the operand type " + debugString(x.getType()) +
                  "; expected batch and channels");
  checkStashType(n, x);
  if (n.getOpset() < 21) {
    weight = repeatOverGroups(n, weight, getShape(x)[1]);
    bias = repeatOverGroups(n, bias, getShape(x)[1]);
  }
  Value y = buildGroupNorm(n, x, n.integer("num_groups", 0), n.number("epsilon", 1e-5));
  y = applyToChannels(n, y, weight, bias);
  return n.failed() ? failure() : n.set(y);
}

} // namespace

void addOnnxNormalizationConverters(OnnxConverterTable &table) {
  table["LayerNormalization"] = convertLayerNormalization;
  table["RMSNormalization"] = convertRmsNormalization;
  table["BatchNormalization"] = convertBatchNormalization;
  table["InstanceNormalization"] = convertInstanceNormalization;
  table["GroupNormalization"] = convertGroupNormalization;
  table["Softmax"] = convertSoftmax<ps::SoftmaxOp>;
  table["LogSoftmax"] = convertSoftmax<ps::LogSoftmaxOp>;
}

} // namespace parashard::import
