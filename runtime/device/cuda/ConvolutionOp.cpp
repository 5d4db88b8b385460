// Runs convolutions with cuDNN or with the fallback kernels.
#include "runtime/device/cuda/CudnnOp.h"
#include "runtime/device/cuda/Switches.h"
#include "runtime/device/cuda/cudnn/ConvolutionGraph.h"
#include <cmath>

namespace psrt::cuda {
namespace {

/// Maximum workspace in bytes. Engines that need more are skipped.
constexpr int64_t kMaxWorkspace = int64_t(256) << 20;

int64_t volumeOf(const std::array<int64_t, 3> &sizes) { return sizes[0] * sizes[1] * sizes[2]; }

class CudnnConvolution : public CudnnOp {
public:
  explicit CudnnConvolution(const ConvolutionOp &op) : op(op) {}

  std::string describe() const override { return describeConvolution(op); }

  CudnnPlan makePlan(const CudnnTarget &target) const override {
    return CudnnPlan(target, makeConvolutionGraph(target, op), op.dtype, kMaxWorkspace);
  }

  std::vector<CudnnTensor> nameTensors(void *const *buffers, void *) const override {
    std::vector<CudnnTensor> result;
    for (int i = 0; i < ConvolutionOp::Buffers; ++i)
      result.push_back({i + 1, buffers[i]});
    return result;
  }

  Trial makeTrial() const override {
    Trial trial;
    for (int i = 0; i < ConvolutionOp::Buffers; ++i) {
      bool isResult = i == op.result;
      Trial::Tensor tensor =
          Trial::Tensor::dense(isResult ? op.outDtype : op.dtype, getConvolutionSizes(op, i));
      tensor.isResult = isResult;
      tensor.absolute = getTolerance();
      trial.tensors.push_back(std::move(tensor));
    }
    return trial;
  }

  Launches launchOurs(void *const *buffers, void *) const override {
    return launchConvolution(op, buffers);
  }

  std::unique_ptr<CudnnOp> halve() const override {
    ConvolutionOp half = op;
    half.batch /= 2;
    return half.batch > 0 ? std::make_unique<CudnnConvolution>(half) : nullptr;
  }

private:
  /// Returns the allowed absolute error. This error grows with the square root of the number of
  /// summed terms, like the standard deviation of the sum.
  double getTolerance() const {
    int64_t taps = volumeOf(op.windows.kernel), positions = volumeOf(op.windows.out);
    const int64_t terms[] = {op.outChannels * taps, op.batch * positions, op.inChannels * taps};
    bool roundsInputs = op.dtype == Dtype::F32 && mayRoundToTf32();
    return (roundsInputs ? 5e-3 : 1e-4) * std::sqrt(double(std::max<int64_t>(terms[op.result], 1)));
  }

  ConvolutionOp op;
};

} // namespace

void bindCall(CudaRank &rank, const ConvolutionOp &op, Bound &bound) {
  if (!hasConvolutionGraph(op) || !bindToCudnn(rank, std::make_unique<CudnnConvolution>(op), bound))
    bindLaunches(rank, bound, launchConvolution(op, bound.buffers));
}

} // namespace psrt::cuda
