// One CUDA rank's part in what is started among pipeline coordinates.
#ifndef PSRT_DEVICE_CUDA_ASYNCPART_H
#define PSRT_DEVICE_CUDA_ASYNCPART_H

#include "runtime/device/cuda/CudaCommunication.h"

namespace psrt::cuda {

/// AsyncCollective after `ready` in the rank's stream; over at `done`, for which that waits at the wait.
struct AsyncPart : AsyncCollective {
  explicit AsyncPart(CudaRankComm &comm)
      : comm(comm), ready(comm.getDevice().getStream()->getGpu()),
        done(comm.getDevice().getStream()->getGpu()) {
    comm.getSideStream();
  }
  CudaRankComm &comm;
  Event ready, done;
};

/// Fails on reductions that are not built.
void checkReduction(const CollectiveOp &op, int members);

} // namespace psrt::cuda

#endif
