// Runs attention with cuDNN or with the fallback kernels.
#include "runtime/device/cuda/CudnnOp.h"
#include "runtime/device/cuda/Switches.h"
#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include <algorithm>
#include <iterator>
#include <limits>

namespace psrt::cuda {
namespace {

/// Returns a pseudo-random number in [0, 1) that depends only on `i`.
double drawAt(int64_t i) {
  uint64_t bits = uint64_t(i + 1) * 0x9e3779b97f4a7c15u;
  return double((bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u >> 11) * 0x1p-53;
}

class CudnnAttention : public CudnnOp {
public:
  /// `scalars` and `key` determine the random numbers of dropout.
  CudnnAttention(const AttentionProblem &problem, const int64_t *scalars, int64_t key)
      : problem(problem), op(this->problem.op), scalars(scalars), key(key), scale(op.scale),
        keptPart(1 - op.dropout), keptScale(1 / keptPart), window(int32_t(op.window)),
        floatWindow(float(op.window)) {}

  std::string describe() const override { return describeAttention(problem); }

  CudnnPlan makePlan(const CudnnTarget &target) const override {
    return CudnnPlan(target, makeAttentionGraph(target, problem), op.dtype,
                     getMostWorkspace(problem));
  }

  std::vector<CudnnTensor> nameTensors(void *const *buffers, void *own) const override {
    std::vector<CudnnTensor> result;
    for (int i : getUsed()) {
      bool isScaled = i == AttentionOp::Dout && problem.scalesDout();
      bool isCopied = i == AttentionOp::Lse && problem.copiesLse();
      result.push_back({i + 1, isScaled ? at(own, Dout) : isCopied ? at(own, Lse) : buffers[i]});
    }
    if (problem.hasBias())
      result.push_back({AttentionOp::Mask + 1, at(own, Bias)});
    for (auto [part, id] : {std::pair(Kept, kKeptId), std::pair(RowSums, kRowSumsId),
                            std::pair(QuerySums, kQuerySumsId)})
      if (getBytes(part))
        result.push_back({id, at(own, part)});
    addNumbers(result);
    return result;
  }

  int64_t getOwnBytes() const override { return getOffset(Parts); }
  Launches launchBefore(void *const *buffers, void *own) const override {
    Launches result;
    auto add = [&](Launches launches) {
      std::move(launches.begin(), launches.end(), std::back_inserter(result));
    };
    if (problem.hasBias())
      add(launchAttentionBias(op, problem.getBiasSizes(), buffers, at(own, Bias)));
    if (problem.scalesDout())
      add(launchAttentionDout(op, buffers, at(own, Rows), at(own, Dout)));
    if (problem.copiesLse())
      add(launchAttentionLse(op, buffers, at(own, Lse)));
    if (op.dropout > 0)
      add(launchAttentionKept(op, buffers, scalars, key, at(own, Kept)));
    return result;
  }

  Trial makeTrial() const override {
    Trial trial;
    trial.tensors.resize(AttentionOp::Buffers);
    for (int i : getUsed())
      trial.tensors[size_t(i)] = describe(i);
    if (problem.hasMask)
      trial.tensors[AttentionOp::Mask] = describeMask();
    if (problem.hasPadding)
      trial.tensors[AttentionOp::Padding] = describePadding();
    return trial;
  }

  int64_t getWorkBytes() const override { return workspaceBytes(op); }
  /// For a gradient, returns the launches of the forward pass, whose results the gradient reads.
  Launches launchInputs(void *const *buffers, void *) const override {
    if (!op.grad)
      return {};
    AttentionOp forward = op;
    forward.grad = false;
    return launch(forward, buffers, nullptr);
  }
  Launches launchOurs(void *const *buffers, void *work) const override {
    return launch(op, buffers, work);
  }

  std::unique_ptr<CudnnOp> halve() const override {
    AttentionProblem half = problem;
    half.op.b /= 2;
    return half.op.b > 0 ? std::make_unique<CudnnAttention>(half, scalars, key) : nullptr;
  }

private:
  /// Buffers that cuDNN needs in addition to those of the instruction, allocated consecutively:
  /// - Bias: values added to the scores.
  /// - Rows, Dout: one number per row of dout, and a scaled copy of dout.
  /// - Lse: copy of the log-sum-exps.
  /// - Kept: the dropout mask.
  /// - RowSums, QuerySums: cuDNN's intermediate results.
  enum Part { Bias, Rows, Dout, Lse, Kept, RowSums, QuerySums, Parts };
  int64_t getBytes(Part part) const {
    std::array<int64_t, 4> bias = problem.getBiasSizes();
    int64_t rows = op.b * op.h * op.t, f32 = dtypeSize(Dtype::F32), narrow = dtypeSize(op.dtype);
    bool isCompositeGradient = problem.isComposite() && op.grad;
    switch (part) {
    case Bias:
      return problem.hasBias() ? bias[0] * bias[1] * bias[2] * bias[3] * f32 : 0;
    case Rows:
      return problem.scalesDout() ? workspaceBytes(op) : 0;
    case Dout:
      return problem.scalesDout() ? rows * op.d * narrow : 0;
    case Lse:
      return problem.copiesLse() ? rows * f32 : 0;
    case Kept:
      return op.dropout > 0 ? problem.countScores() * narrow : 0;
    case RowSums:
      return isCompositeGradient ? rows * f32 : 0;
    case QuerySums:
      return isCompositeGradient && problem.addsUpQueries ? rows * op.d * f32 : 0;
    case Parts:
      break;
    }
    return 0;
  }
  int64_t getOffset(Part part) const {
    int64_t result = 0;
    for (int i = 0; i < part; ++i)
      result += alignScratch(getBytes(Part(i)));
    return result;
  }
  void *at(void *own, Part part) const { return static_cast<char *>(own) + getOffset(part); }

  template <typename T>
  static void addNumber(std::vector<CudnnTensor> &to, int64_t id, const T &number) {
    to.push_back({id, const_cast<T *>(&number), true});
  }
  void addNumbers(std::vector<CudnnTensor> &to) const {
    addNumber(to, kScaleId, scale);
    if (op.causal || op.window > 0)
      addNumber(to, kHiddenId, hidden);
    if (op.window > 0 && problem.isComposite())
      addNumber(to, kWindowId, floatWindow);
    else if (op.window > 0)
      addNumber(to, kWindowId, window);
    if (op.dropout > 0)
      addNumber(to, kKeptScaleId, keptScale);
    if (problem.isComposite() && op.grad)
      addNumber(to, kKeptPartId, keptPart);
  }
  Launches launch(const AttentionOp &attention, void *const *buffers, void *work) const {
    return launchAttention(attention, buffers, scalars, key, work);
  }

  /// Returns the buffers of heads (q, k, v and out; for a gradient, also the gradients of these)
  /// and of the log-sum-exps.
  std::vector<int> getUsed() const {
    if (!op.grad)
      return {AttentionOp::Q, AttentionOp::K, AttentionOp::V, AttentionOp::Out, AttentionOp::Lse};
    return {AttentionOp::Q,    AttentionOp::K,  AttentionOp::V,  AttentionOp::Out, AttentionOp::Lse,
            AttentionOp::Dout, AttentionOp::Dq, AttentionOp::Dk, AttentionOp::Dv};
  }

  /// Describes a tensor of the comparison. cuDNN and the fallback kernels round probabilities, and
  /// values computed from probabilities, to the tensors' dtype at different steps. The resulting
  /// error is proportional to the row's magnitude.
  Trial::Tensor describe(int buffer) const {
    if (buffer == AttentionOp::Lse) {
      Trial::Tensor result = Trial::Tensor::dense(Dtype::F32, {op.b, op.h, op.t});
      result.isResult = !op.grad;
      result.absolute = 1e-3;
      return result;
    }
    const std::array<int64_t, 3> &strides = getStrides(op, buffer);
    bool isOfKeys = buffer == AttentionOp::K || buffer == AttentionOp::V ||
                    buffer == AttentionOp::Dk || buffer == AttentionOp::Dv;
    Trial::Tensor result;
    result.dtype = op.dtype;
    result.sizes = {op.b, isOfKeys ? op.g : op.h, isOfKeys ? op.s : op.t, op.d};
    result.strides.assign(strides.begin(), strides.end());
    result.strides.push_back(1);
    result.isResult = op.grad ? buffer >= AttentionOp::Dq : buffer == AttentionOp::Out;
    result.ofRow = 4 * getRounding(op.dtype);
    return result;
  }

  /// Describes a random mask whose row 0 hides all keys. In masks of numbers, row 1 has the lowest
  /// finite number at all keys, and row 2 has this number at every other key.
  Trial::Tensor describeMask() const {
    Trial::Tensor result;
    result.dtype = op.maskDtype;
    result.sizes = {op.b, op.h, op.t, op.s};
    result.strides.assign(op.mask.begin(), op.mask.end());
    double lowest = op.maskDtype == Dtype::F32    ? double(std::numeric_limits<float>::lowest())
                    : op.maskDtype == Dtype::BF16 ? -0x1.fep127
                                                  : -65504;
    int64_t s = op.s;
    bool isBool = op.maskDtype == Dtype::Bool;
    result.value = [=](int64_t i) {
      int64_t row = i / s;
      if (isBool)
        return row == 0 || drawAt(i) < 0.2 ? 0.0 : 1.0;
      if (row == 0)
        return -std::numeric_limits<double>::infinity();
      return row == 1 || (row == 2 && i % 2 == 0) ? lowest : 2 * drawAt(i) - 1;
    };
    return result;
  }

  /// Describes a padding mask that hides the first keys of every sequence, and some random keys. If
  /// there are several sequences, the mask also hides all keys of the last one.
  Trial::Tensor describePadding() const {
    Trial::Tensor result = Trial::Tensor::dense(Dtype::Bool, {op.b, op.s});
    int64_t b = op.b, s = op.s;
    result.value = [=](int64_t i) {
      bool isHidden = i % s < s / 8 || (b > 1 && i / s == b - 1) || drawAt(i) < 0.2;
      return isHidden ? 0.0 : 1.0;
    };
    return result;
  }

  AttentionProblem problem;
  const AttentionOp &op;
  const int64_t *scalars;
  int64_t key;
  float scale, keptPart, keptScale, hidden = -std::numeric_limits<float>::infinity();
  int32_t window;
  float floatWindow;
};

} // namespace

void bindCall(CudaRank &rank, const AttentionOp &op, Bound &bound) {
  AttentionProblem problem{op, bound.buffers[AttentionOp::Mask] != nullptr,
                           bound.buffers[AttentionOp::Padding] != nullptr};
  if (CudnnHandle *cudnnHandle = hasAttentionGraph(problem) ? rank.getCudnn() : nullptr) {
    problem.form = chooseForm(cudnnHandle->getTarget().library.version, op);
    problem.addsUpQueries = problem.isComposite() && mayBeNondeterministic();
    if (bindToCudnn(rank, std::make_unique<CudnnAttention>(problem, bound.scalars, bound.key),
                    bound))
      return;
  }
  int64_t bytes = workspaceBytes(op);
  CUdeviceptr work = rank.getScratch(bytes);
  bindLaunches(
      rank, bound,
      launchAttention(op, bound.buffers, bound.scalars, bound.key, reinterpret_cast<void *>(work)),
      work, bytes);
}

} // namespace psrt::cuda
