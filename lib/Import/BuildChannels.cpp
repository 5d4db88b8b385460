// Builds norms over channels (dim 1): batch norm with its running statistics, and group norm.
#include "lib/Import/BuildOps.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {

/// Fails unless x has the dims [N, C, ...], and each vector that is not null has C elements.
static bool checkChannels(TensorBuilder &n, Value x, ArrayRef<Value> vectors) {
  if (getRank(x) < 2) {
    (void)n.fail("has " + debugString(x.getType()) +
                 "; expected at least 2 dims, batch and channels");
    return false;
  }
  for (Value vector : vectors)
    if (vector && (getRank(vector) != 1 || getShape(vector)[0] != getShape(x)[1])) {
      (void)n.fail("has " + debugString(vector.getType()) + " for the " +
                   describeCount(getShape(x)[1], "channel") + " of " + debugString(x.getType()));
      return false;
    }
  return true;
}

/// Broadcasts a vector over the channels to the shape of `like`.
static Value spreadChannels(TensorBuilder &n, Value vector, Value like) {
  SmallVector<int64_t> column(getRank(like) - 1, 1);
  column[0] = getShape(vector)[0];
  return n.broadcast(n.reshape(vector, column), getShape(like));
}

Value applyToChannels(TensorBuilder &n, Value y, Value weight, Value bias) {
  if (!checkChannels(n, y, {weight, bias}))
    return y;
  auto spread = [&](Value vector) {
    return spreadChannels(n, n.convert(vector, getElement(y)), y);
  };
  if (weight)
    y = n.make<ps::MulOp>(y, spread(weight));
  if (bias)
    y = n.make<ps::AddOp>(y, spread(bias));
  return y;
}

Value buildGroupNorm(TensorBuilder &n, Value x, int64_t groups, double epsilon) {
  if (!checkChannels(n, x, {}))
    return x;
  SmallVector<int64_t> shape(getShape(x));
  if (groups < 1 || shape[1] % groups != 0) {
    (void)n.fail("splits " + describeCount(shape[1], "channel") + " into " + Twine(groups) +
                 " groups");
    return x;
  }
  int64_t inGroup = shape[1] / groups * llvm::product_of(ArrayRef(shape).drop_front(2));
  auto rstd = RankedTensorType::get({shape[0], groups}, getStatisticsType(n, x));
  Value flat = n.reshape(x, {shape[0], groups, inGroup});
  auto norm = n.make<ps::LayerNormOp>(flat.getType(), rstd, flat, n.b.getF64FloatAttr(epsilon));
  return n.reshape(norm.getResult(), shape);
}

namespace {

/// The mean or the variance of each channel. `batch` is the statistic of the batch, or null in eval
/// mode. `holding` is the statistic that normalizes x.
struct Statistics {
  Value batch, holding;
};

/// Builds one batch norm.
class BatchNormBuilder {
public:
  BatchNormBuilder(TensorBuilder &n, const BatchNorm &norm)
      : n(n), norm(norm), element(getStatisticsType(n, norm.input)) {}

  /// Builds (x - mean) rsqrt(variance + eps) weight + bias. Mean and variance are ordinary
  /// reductions over the whole micro-batch, also if the batch is sharded.
  BatchNormResult build() {
    Value x = n.convert(norm.input, element);
    double count = double(getType(x).getNumElements()) / double(getShape(x)[1]);
    Statistics mean, variance;
    if (norm.isTraining)
      mean.batch = n.divide(sum(x), count);
    mean.holding = byMode(mean.batch, norm.runningMean);
    Value centered = n.make<ps::SubOp>(x, spreadChannels(n, mean.holding, x));
    if (norm.isTraining)
      variance.batch = n.divide(sum(n.make<ps::MulOp>(centered, centered)), count);
    variance.holding = byMode(variance.batch, norm.runningVariance);
    Value scale = n.make<ps::RsqrtOp>(
        n.make<ps::AddOp>(variance.holding, n.splat(getType(variance.holding), norm.epsilon)));
    if (norm.weight)
      scale = n.make<ps::MulOp>(scale, n.convert(norm.weight, element));
    BatchNormResult built{applyToChannels(n, centered, scale, norm.bias), {}, {}};
    if (norm.isTraining && norm.runningMean && norm.runningVariance) {
      double unbiased = count / std::max(count - 1, 1.0);
      built.runningMean = move(norm.runningMean, mean.batch, norm.momentum);
      built.runningVariance = move(norm.runningVariance, variance.batch, norm.momentum * unbiased);
    }
    return built;
  }

private:
  Value sum(Value value) {
    auto dims = llvm::to_vector(llvm::seq<int64_t>(2, getRank(value)));
    dims.insert(dims.begin(), 0);
    return n.reduce(ps::ReductionKind::Sum, value, dims, false);
  }
  /// Selects the statistic that normalizes: the batch statistic in training, the running statistic
  /// in evaluation (`ps.by_mode`). If the norm has no running statistic, always selects the batch
  /// statistic. If the model was exported in eval mode, always selects the running statistic. If
  /// this statistic is a variable, a `ps.by_mode` is built nevertheless, so that `ps-check-mode`
  /// can warn about the eval mode.
  Value byMode(Value batch, Value running) {
    if (!running)
      return batch;
    bool isState(running.getDefiningOp<ps::ReadOp>());
    running = n.convert(running, element);
    if (!norm.isTraining && !isState)
      return running;
    return n.make<ps::ByModeOp>(running.getType(), norm.isTraining ? batch : running, running,
                                n.b.getBoolAttr(norm.isTraining));
  }
  Value move(Value running, Value batch, double share) {
    Value kept = n.convert(running, element);
    kept = n.make<ps::MulOp>(kept, n.splat(getType(kept), 1 - norm.momentum));
    Value added = n.make<ps::MulOp>(batch, n.splat(getType(batch), share));
    return n.convert(n.make<ps::AddOp>(kept, added), getElement(running));
  }

  TensorBuilder &n;
  const BatchNorm &norm;
  Type element;
};

} // namespace

BatchNormResult buildBatchNorm(TensorBuilder &n, const BatchNorm &norm) {
  BatchNormResult none{norm.input, {}, {}};
  if (!checkChannels(n, norm.input,
                     {norm.weight, norm.bias, norm.runningMean, norm.runningVariance}))
    return none;
  if (!norm.isTraining && (!norm.runningMean || !norm.runningVariance)) {
    (void)n.fail("has no running statistics to normalize with in evaluation");
    return none;
  }
  return BatchNormBuilder(n, norm).build();
}

} // namespace parashard::import
