// Attention: by cuDNN, or by our kernels.
#include "runtime/device/cuda/CudnnOp.h"
#include "runtime/device/cuda/Switches.h"
#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include <algorithm>
#include <iterator>
#include <limits>

namespace psrt::cuda {
namespace {

/// A number from 0 to 1 that depends on `i` alone.
double drawAt(int64_t i) {
  uint64_t bits = uint64_t(i + 1) * 0x9e3779b97f4a7c15u;
  return double((bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u >> 11) * 0x1p-53;
}

class CudnnAttention : public CudnnOp {
public:
  /// `scalars` and `key`: of the random numbers.
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
  /// Gradients read what forward gave.
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
  /// Memory besides the buffers, one part behind the other: what is added to scores; where dout is
  /// scaled, what is computed of its rows, and its copy; a copy of the log-sums; what dropout
  /// keeps; and what cuDNN works in.
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
  Launches launch(const AttentionOp &what, void *const *buffers, void *work) const {
    return launchAttention(what, buffers, scalars, key, work);
  }

  /// Buffers of heads and the log-sums.
  std::vector<int> getUsed() const {
    if (!op.grad)
      return {AttentionOp::Q, AttentionOp::K, AttentionOp::V, AttentionOp::Out, AttentionOp::Lse};
    return {AttentionOp::Q,    AttentionOp::K,  AttentionOp::V,  AttentionOp::Out, AttentionOp::Lse,
            AttentionOp::Dout, AttentionOp::Dq, AttentionOp::Dk, AttentionOp::Dv};
  }

  /// Both sides round probabilities, and what is computed of them, to the type of the tensors at
  /// places of their own; what such terms add up to is as large as the row is.
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

  /// One row sees nothing, one has the lowest scores alone, one has them at every other place.
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

  /// The first keys of all sequences are hidden, all of the last sequence, and some others.
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

void bindAttention(CudaRank &rank, const AttentionOp &op, Bound &bound) {
  AttentionProblem problem{op, bound.buffers[AttentionOp::Mask] != nullptr,
                           bound.buffers[AttentionOp::Padding] != nullptr};
  if (CudnnHandle *cudnnHandle = hasAttentionGraph(problem) ? rank.getCudnn() : nullptr) {
    problem.form = chooseForm(cudnnHandle->getTarget().library.version, op);
    problem.addsUpQueries = problem.isComposite() && mayBeNondeterministic();
    if (bindToCudnn(rank, std::make_unique<CudnnAttention>(problem, bound.scalars, bound.key), bound))
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
