// Runs sorts with the runtime's kernels.
#include "runtime/device/cuda/CudaDevice.h"

namespace psrt::cuda {

void bindCall(CudaRank &rank, const SortOp &op, Bound &bound) {
  int64_t bytes = workspaceBytes(op);
  CUdeviceptr work = rank.getScratch(bytes);
  bindLaunches(rank, bound, launchSort(op, bound.buffers, reinterpret_cast<void *>(work)), work,
               bytes);
}

} // namespace psrt::cuda
