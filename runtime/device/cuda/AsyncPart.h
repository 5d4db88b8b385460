// Defines a CUDA rank's state in an asynchronous collective between pipeline coordinates.
#ifndef PSRT_DEVICE_CUDA_ASYNCPART_H
#define PSRT_DEVICE_CUDA_ASYNCPART_H

#include "runtime/device/cuda/CudaCommunication.h"

namespace psrt::cuda {

/// The collective starts after the event `ready` of the rank's stream, and records `done` at its
/// end. At the matching WaitOp, the rank's stream waits for `done`.
struct AsyncPart : AsyncCollective {
  explicit AsyncPart(CudaRankComm &comm)
      : comm(comm), ready(comm.getDevice().getStream()->getGpu()),
        done(comm.getDevice().getStream()->getGpu()) {
    comm.getSideStream();
  }
  CudaRankComm &comm;
  Event ready, done;
};

/// Throws BadInput if more ranks share the GPU than the reduction kernels support.
void checkReduction(const CollectiveOp &op, int members);

} // namespace psrt::cuda

#endif
