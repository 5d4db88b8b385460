// Norms by channel: batch norm with its running statistics, group norm and instance norm.
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

Type getStatisticsType(NodeConverter &n, Value x) {
  return getElement(x).isF64() ? getElement(x) : n.f32();
}

/// Statistics by channel: of the batch, and those that hold in the mode that the op is in.
struct Statistics {
  Value batch, holding;
};

/// One batch norm being converted.
class BatchNorm {
public:
  explicit BatchNorm(NodeConverter &n) : n(n), input(n.tensor("input")) {
    isTraining = n.boolean("training", false);
    weight = n.optionalTensor("weight");
    bias = n.optionalTensor("bias");
    runningMean = n.optionalTensor("running_mean");
    runningVariance = n.optionalTensor("running_var");
    epsilon = n.number("eps", 1e-5);
    momentum = n.number("momentum", 0.1);
  }

  LogicalResult build();
  /// The running statistics after this batch.
  Value getNewMean() { return move(runningMean, mean.batch, momentum); }
  Value getNewVariance() {
    double unbiased = count / std::max(count - 1, 1.0);
    return move(runningVariance, variance.batch, momentum * unbiased);
  }
  bool movesStatistics() const { return isTraining && runningMean && runningVariance; }
  Value getResult() const { return result; }

private:
  Value sum(Value value) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(2, getRank(value)));
    dims.insert(dims.begin(), 0);
    return n.reduce(ps::ReductionKind::Sum, value, dims, false);
  }
  /// A batch statistic in training, the running one in evaluation; in training both where there is
  /// no running one.
  Value byMode(Value batch, Value running) {
    if (!running)
      return batch;
    running = n.convert(running, element);
    return n.make<ps::ByModeOp>(running.getType(), isTraining ? batch : running, running,
                                n.b.getBoolAttr(isTraining));
  }
  Value move(Value running, Value batch, double share) {
    Value kept = n.convert(running, element);
    kept = n.make<ps::MulOp>(kept, n.splat(getType(kept), 1 - momentum));
    Value added = n.make<ps::MulOp>(batch, n.splat(getType(batch), share));
    return n.convert(n.make<ps::AddOp>(kept, added), getElement(running));
  }

  NodeConverter &n;
  Value input, weight, bias, runningMean, runningVariance, result;
  Type element;
  bool isTraining = false;
  double epsilon = 0, momentum = 0, count = 1;
  Statistics mean, variance;
};

/// (x - mean) rsqrt(variance + eps) weight + bias. Mean and variance of a batch are those of the
/// whole micro-batch: their sums are reductions like others.
LogicalResult BatchNorm::build() {
  if (n.failed())
    return failure();
  if (!isTraining && (!runningMean || !runningVariance))
    return n.fail("has no running statistics to normalise by in evaluation");
  element = getStatisticsType(n, input);
  Value x = n.convert(input, element);
  int64_t channels = getShape(x)[1];
  count = double(getType(x).getNumElements()) / double(channels);
  if (isTraining)
    mean.batch = n.divide(sum(x), count);
  mean.holding = byMode(mean.batch, runningMean);
  SmallVector<int64_t> column(getRank(x) - 1, 1);
  column[0] = channels;
  auto spread = [&](Value vector) { return n.broadcast(n.reshape(vector, column), getShape(x)); };
  Value centered = n.make<ps::SubOp>(x, spread(mean.holding));
  if (isTraining)
    variance.batch = n.divide(sum(n.make<ps::MulOp>(centered, centered)), count);
  variance.holding = byMode(variance.batch, runningVariance);
  Value scale = n.make<ps::RsqrtOp>(
      n.make<ps::AddOp>(variance.holding, n.splat(getType(variance.holding), epsilon)));
  if (weight)
    scale = n.make<ps::MulOp>(scale, n.convert(weight, element));
  result = applyToChannels(n, centered, scale, bias);
  return success(!n.failed());
}

/// Results 1 and 2 of the native forms, the batch's statistics, are only for their backward.
LogicalResult convertBatchNorm(NodeConverter &n) {
  BatchNorm norm(n);
  if (failed(norm.build()) || failed(n.set(0, norm.getResult())))
    return failure();
  if (!norm.movesStatistics())
    return success();
  return success(succeeded(n.write("running_mean", norm.getNewMean())) &&
                 succeeded(n.write("running_var", norm.getNewVariance())));
}

/// Gives the new running statistics as results 3 and 4 instead of writing them.
LogicalResult convertFunctionalBatchNorm(NodeConverter &n) {
  BatchNorm norm(n);
  if (failed(norm.build()) || failed(n.set(0, norm.getResult())))
    return failure();
  bool moves = norm.movesStatistics();
  return success(succeeded(n.set(3, moves ? norm.getNewMean() : n.tensor("running_mean"))) &&
                 succeeded(n.set(4, moves ? norm.getNewVariance() : n.tensor("running_var"))));
}

/// Normalises each of `groups` groups of channels of each element of the batch.
LogicalResult normalizeGroups(NodeConverter &n, int64_t groups, double epsilon) {
  Value x = n.tensor("input");
  if (n.failed())
    return failure();
  SmallVector<int64_t> shape(getShape(x));
  SmallVector<int64_t> rows{shape[0], groups, getType(x).getNumElements() / (shape[0] * groups)};
  auto rstd = RankedTensorType::get({shape[0], groups}, getStatisticsType(n, x));
  Value flat = n.reshape(x, rows);
  auto norm = n.make<ps::LayerNormOp>(flat.getType(), rstd, flat, n.b.getF64FloatAttr(epsilon));
  Value y = applyToChannels(n, n.reshape(norm.getResult(), shape), n.optionalTensor("weight"),
                            n.optionalTensor("bias"));
  return n.failed() ? failure() : n.set(0, y);
}

LogicalResult convertGroupNorm(NodeConverter &n) {
  int64_t groups = n.integer(n.has("num_groups") ? "num_groups" : "group");
  return n.failed() ? failure() : normalizeGroups(n, groups, n.number("eps", 1e-5));
}

LogicalResult convertInstanceNorm(NodeConverter &n) {
  Value x = n.tensor("input");
  if (n.failed())
    return failure();
  if (!n.boolean("use_input_stats", true) || n.has("running_mean"))
    return n.fail("keeps running statistics, which is not supported; make it with "
                  "track_running_stats=False");
  return normalizeGroups(n, getShape(x)[1], n.number("eps", 1e-5));
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
