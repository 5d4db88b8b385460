// Defines operations that cuDNN may run instead of the runtime's fallback kernels. cuDNN is used if
// it supports the problem, computes the same results on random numbers and is not slower.
#ifndef PSRT_DEVICE_CUDA_CUDNNOP_H
#define PSRT_DEVICE_CUDA_CUDNNOP_H

#include "runtime/device/cuda/CudaDevice.h"

namespace psrt::cuda {

/// Rounds the size of a scratch part up to a multiple of 256 bytes, so that the next part is
/// aligned.
inline int64_t alignScratch(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// One problem that cuDNN may compute. In the functions below, `buffers` are the instruction's
/// buffers, `own` is memory of getOwnBytes() bytes, and `work` is memory of getWorkBytes() bytes.
class CudnnOp {
public:
  virtual ~CudnnOp() = default;
  /// Returns a unique description of the problem, also used in messages.
  virtual std::string describe() const = 0;
  /// Creates the plan. Throws a CudnnFailure if cuDNN does not support the problem.
  virtual CudnnPlan makePlan(const CudnnTarget &target) const = 0;
  /// Returns the tensors that the plan reads and writes. Host scalars are members of this object,
  /// so this object must outlive the plan's runs.
  virtual std::vector<CudnnTensor> nameTensors(void *const *buffers, void *own) const = 0;
  /// Returns the size of `own` in bytes. Kernels of the runtime write this memory before the plan
  /// runs, e.g. with a mask.
  virtual int64_t getOwnBytes() const { return 0; }
  /// Returns the launches of the kernels that write `own`.
  virtual Launches launchBefore(void *const *, void * /*own*/) const { return {}; }

  /// Returns the tensors of the comparison, indexed by buffer.
  virtual Trial makeTrial() const = 0;
  /// Returns the bytes of workspace that launchInputs() and launchOurs() need.
  virtual int64_t getWorkBytes() const { return 0; }
  /// Returns launches that compute those inputs of the comparison that depend on other inputs.
  /// Example: the gradient of attention reads the result of its forward pass.
  virtual Launches launchInputs(void *const *, void * /*work*/) const { return {}; }
  /// Returns the launches of the fallback kernels.
  virtual Launches launchOurs(void *const *buffers, void *work) const = 0;
  /// Returns the problem with half of the batch, or null if the batch cannot be halved.
  virtual std::unique_ptr<CudnnOp> halve() const = 0;
};

/// Tries to bind the instruction to cuDNN. Returns false if cuDNN is not used, if its results
/// differ from those of the fallback kernels (which is reported once), or if the fallback kernels
/// are faster.
bool bindToCudnn(CudaRank &rank, std::unique_ptr<CudnnOp> op, Bound &bound);

} // namespace psrt::cuda

#endif
