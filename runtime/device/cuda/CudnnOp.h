// Operations that cuDNN may do in place of kernels of ours: it takes the problem, computes what
// these do on random numbers, and is not slower.
#ifndef PSRT_DEVICE_CUDA_CUDNNOP_H
#define PSRT_DEVICE_CUDA_CUDNNOP_H

#include "runtime/device/cuda/CudaDevice.h"

namespace psrt::cuda {

/// Where the next part of a scratch memory begins.
inline int64_t alignScratch(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// One problem. `buffers` are those of its instruction.
class CudnnOp {
public:
  virtual ~CudnnOp() = default;
  /// In messages, and to tell problems apart.
  virtual std::string describe() const = 0;
  /// Throws a CudnnFailure where cuDNN does not take it.
  virtual CudnnPlan makePlan(const CudnnTarget &target) const = 0;
  /// What the plan reads and writes. Numbers of the host are in this object, which the plan's runs
  /// need.
  virtual std::vector<CudnnTensor> nameTensors(void *const *buffers, void *own) const = 0;
  /// Memory that our kernels write before the plan runs.
  virtual int64_t getOwnBytes() const { return 0; }
  virtual Launches launchBefore(void *const *, void * /*own*/) const { return {}; }

  /// Tensors of the comparison by the number of their buffer; not what is run.
  virtual Trial makeTrial() const = 0;
  virtual int64_t getWorkBytes() const { return 0; }
  /// Computes what is read and is no result.
  virtual Launches launchInputs(void *const *, void * /*work*/) const { return {}; }
  virtual Launches launchOurs(void *const *buffers, void *work) const = 0;
  /// One with half of the batch; null where there is none.
  virtual std::unique_ptr<CudnnOp> halve() const = 0;
};

/// Whether cuDNN does it: the instruction is bound to that. It does not where it computes something
/// else, which a note says once, or where the runtime's kernels are faster.
bool bindToCudnn(CudaRank &rank, std::unique_ptr<CudnnOp> op, Bound &bound);

} // namespace psrt::cuda

#endif
