// Converts norms over channels: batch norm with its running statistics, group norm and instance
// norm.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

BatchNorm readNorm(NodeConverter &n) {
  BatchNorm norm;
  n.markWithoutEffect({"cudnn_enabled"});
  norm.input = n.tensor("input");
  norm.weight = n.optionalTensor("weight");
  norm.bias = n.optionalTensor("bias");
  norm.runningMean = n.optionalTensor("running_mean");
  norm.runningVariance = n.optionalTensor("running_var");
  norm.epsilon = n.number("eps", 1e-5);
  norm.momentum = n.number("momentum", 0.1);
  norm.isTraining = n.boolean("training", false);
  return norm;
}

/// Builds the norm and defines result 0. Returns nullopt if the node fails.
std::optional<BatchNormResult> setNorm(NodeConverter &n) {
  BatchNorm norm = readNorm(n);
  if (n.failed())
    return std::nullopt;
  BatchNormResult built = buildBatchNorm(n, norm);
  if (n.failed() || failed(n.set(0, built.result)))
    return std::nullopt;
  return built;
}

/// Converts a batch norm, and writes its running statistics. Results 1 and 2 of native_batch_norm
/// (batch statistics) are only used by its backward.
LogicalResult convertBatchNorm(NodeConverter &n) {
  std::optional<BatchNormResult> built = setNorm(n);
  if (!built || !built->runningMean)
    return success(built.has_value());
  return success(succeeded(n.write("running_mean", built->runningMean)) &&
                 succeeded(n.write("running_var", built->runningVariance)));
}

/// Converts a functional batch norm, which returns the new running statistics as results 3 and 4
/// instead of writing them.
LogicalResult convertFunctionalBatchNorm(NodeConverter &n) {
  std::optional<BatchNormResult> built = setNorm(n);
  if (!built)
    return failure();
  bool updatesStatistics(built->runningMean);
  return success(
      succeeded(n.set(3, updatesStatistics ? built->runningMean : n.tensor("running_mean"))) &&
      succeeded(n.set(4, updatesStatistics ? built->runningVariance : n.tensor("running_var"))));
}

/// Normalizes each group of channels of each sample.
LogicalResult normalizeGroups(NodeConverter &n, int64_t groups, double epsilon) {
  Value x = n.tensor("input"), weight = n.optionalTensor("weight"), bias = n.optionalTensor("bias");
  if (n.failed())
    return failure();
  Value y = applyToChannels(n, buildGroupNorm(n, x, groups, epsilon), weight, bias);
  return n.failed() ? failure() : n.set(0, y);
}

LogicalResult convertGroupNorm(NodeConverter &n) {
  n.markTypeOnly({"N", "C", "HxW"});
  n.markWithoutEffect({"cudnn_enabled"});
  int64_t groups = n.integer(n.has("num_groups") ? "num_groups" : "group");
  return n.failed() ? failure() : normalizeGroups(n, groups, n.number("eps", 1e-5));
}

LogicalResult convertInstanceNorm(NodeConverter &n) {
  Value x = n.tensor("input");
  if (n.failed())
    return failure();
  n.markWithoutEffect({"momentum", "cudnn_enabled"}); // no statistics are kept
  if (!n.boolean("use_input_stats", true) || n.has("running_mean") || n.has("running_var"))
    return n.fail("keeps running statistics, which is not supported; create it with "
                  "track_running_stats=False");
  return normalizeGroups(n, getRank(x) > 1 ? getShape(x)[1] : 0, n.number("eps", 1e-5));
}

} // namespace

void addBatchNormConverters(ConverterTable &table) {
  table["aten.batch_norm"] = convertBatchNorm;
  table["aten.native_batch_norm"] = convertBatchNorm;
  table["aten._native_batch_norm_legit"] = convertBatchNorm;
  table["aten._native_batch_norm_legit_no_training"] = convertBatchNorm;
  table["aten._native_batch_norm_legit_functional"] = convertFunctionalBatchNorm;
  table["aten.group_norm"] = convertGroupNorm;
  table["aten.native_group_norm"] = convertGroupNorm;
  table["aten.instance_norm"] = convertInstanceNorm;
}

} // namespace parashard::import
