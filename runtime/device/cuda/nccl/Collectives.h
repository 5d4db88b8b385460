// Runs collectives and messages with NCCL.
#ifndef PSRT_DEVICE_CUDA_NCCL_COLLECTIVES_H
#define PSRT_DEVICE_CUDA_NCCL_COLLECTIVES_H

#include "runtime/device/cuda/nccl/NcclCommunication.h"

namespace psrt::nccl {

/// Returns the bytes of scratch that the operation needs in addition to its buffers.
int64_t scratchBytes(const NcclOp &op);
/// Fails if NCCL does not support the operation.
void checkSupported(const NcclOp &op);
/// Enqueues the operation into its CommStream.
void enqueue(const NcclOp &op, const Bound &bound, cuda::CudaRank &device);

} // namespace psrt::nccl

#endif
