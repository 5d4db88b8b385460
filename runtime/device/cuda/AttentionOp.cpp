// Attention: by cuDNN, or by our kernels.
#include "runtime/device/cuda/DnnOp.h"
#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include <algorithm>
#include <limits>

namespace psrt::cuda {
namespace {

/// A number from 0 to 1 that depends on `i` alone.
double drawAt(int64_t i) {
  uint64_t bits = uint64_t(i + 1) * 0x9e3779b97f4a7c15u;
  return double((bits ^ bits >> 29) * 0xbf58476d1ce4e5b9u >> 11) * 0x1p-53;
}

class DnnAttention : public DnnOp {
public:
  explicit DnnAttention(const AttentionProblem &problem)
      : problem(problem), op(this->problem.op), scale(op.scale), window(int32_t(op.window)) {}

  std::string describe() const override { return describeAttention(problem); }

  DnnPlan makePlan(const DnnTarget &target) const override {
    return DnnPlan(target, makeAttentionGraph(target, problem), op.dtype, getMostWorkspace(op));
  }

  std::vector<DnnTensor> nameTensors(void *const *buffers, void *own) const override {
    std::vector<DnnTensor> result;
    for (int i : getUsed()) {
      bool isScaled = i == AttentionOp::Dout && problem.scalesDout();
      result.push_back({i + 1, isScaled ? at(own, getDoutOffset()) : buffers[i]});
    }
    if (problem.hasBias())
      result.push_back({AttentionOp::Mask + 1, own});
    addNumber(result, kScaleId, scale);
    if (op.causal || op.window > 0)
      addNumber(result, kHiddenId, hidden);
    if (op.window > 0)
      addNumber(result, kWindowId, window);
    return result;
  }

  /// What is added to scores; where dout is scaled, what is computed of its rows, and its copy.
  int64_t getOwnBytes() const override {
    return getDoutOffset() +
           (problem.scalesDout() ? op.b * op.h * op.t * op.d * dtypeSize(op.dtype) : 0);
  }
  Launches launchBefore(void *const *buffers, void *own) const override {
    Launches result;
    if (problem.hasBias())
      result = launchAttentionBias(op, problem.getBiasSizes(), buffers, own);
    if (problem.scalesDout())
      for (KernelLaunch &launch :
           launchAttentionDout(op, buffers, at(own, getRowsOffset()), at(own, getDoutOffset())))
        result.push_back(std::move(launch));
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

  std::unique_ptr<DnnOp> halve() const override {
    AttentionProblem half = problem;
    half.op.b /= 2;
    return half.op.b > 0 ? std::make_unique<DnnAttention>(half) : nullptr;
  }

private:
  static void *at(void *memory, int64_t offset) { return static_cast<char *>(memory) + offset; }
  int64_t getRowsOffset() const {
    std::array<int64_t, 4> sizes = problem.getBiasSizes();
    int64_t count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    return problem.hasBias() ? alignScratch(count * dtypeSize(Dtype::F32)) : 0;
  }
  int64_t getDoutOffset() const {
    return getRowsOffset() + (problem.scalesDout() ? alignScratch(workspaceBytes(op)) : 0);
  }

  template <typename T>
  static void addNumber(std::vector<DnnTensor> &to, int64_t id, const T &number) {
    to.push_back({id, const_cast<T *>(&number), true});
  }
  static Launches launch(const AttentionOp &op, void *const *buffers, void *work) {
    return launchAttention(op, buffers, nullptr, 0, work); // without random numbers
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
    const std::array<int64_t, 3> *strides[] = {&op.q,    &op.k,  &op.v,  &op.out, nullptr,
                                               &op.dout, &op.dq, &op.dk, &op.dv};
    bool isOfKeys = buffer == AttentionOp::K || buffer == AttentionOp::V ||
                    buffer == AttentionOp::Dk || buffer == AttentionOp::Dv;
    Trial::Tensor result;
    result.dtype = op.dtype;
    result.sizes = {op.b, isOfKeys ? op.g : op.h, isOfKeys ? op.s : op.t, op.d};
    result.strides.assign(strides[buffer]->begin(), strides[buffer]->end());
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
  float scale, hidden = -std::numeric_limits<float>::infinity();
  int32_t window;
};

} // namespace

void bindAttention(CudaRank &rank, const AttentionOp &op, Bound &bound) {
  AttentionProblem problem{op, bound.buffers[AttentionOp::Mask] != nullptr,
                           bound.buffers[AttentionOp::Padding] != nullptr};
  if (hasAttentionGraph(problem) && bindToDnn(rank, std::make_unique<DnnAttention>(problem), bound))
    return;
  int64_t bytes = workspaceBytes(op);
  CUdeviceptr work = rank.getScratch(bytes);
  bindLaunches(
      rank, bound,
      launchAttention(op, bound.buffers, bound.scalars, bound.key, reinterpret_cast<void *>(work)),
      work, bytes);
}

} // namespace psrt::cuda
