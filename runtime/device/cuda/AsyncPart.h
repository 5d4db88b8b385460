// Defines the state of one CUDA rank in an asynchronous collective between pipeline coordinates.
#ifndef PSRT_DEVICE_CUDA_ASYNCPART_H
#define PSRT_DEVICE_CUDA_ASYNCPART_H

#include "runtime/device/cuda/CudaCommunication.h"

namespace psrt::cuda {

/// The collective waits for the event `ready`, which the rank's stream records. At its end, the
/// collective records `done`. At the matching WaitOp, the rank's stream waits for `done`.
struct AsyncPart : AsyncCollective {
  explicit AsyncPart(CudaRankComm &comm)
      : comm(comm), ready(comm.getDevice().getStream()->getGpu()),
        done(comm.getDevice().getStream()->getGpu()) {
    comm.getSideStream();
  }
  CudaRankComm &comm;
  Event ready, done;
};

/// Throws BadInput if the reduction has more members than the reduction kernels support.
void checkReduction(const CollectiveOp &op, int members);

} // namespace psrt::cuda

#endif
