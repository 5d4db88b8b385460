// The collectives as calls of NCCL.
#ifndef PSRT_DEVICE_CUDA_NCCL_COLLECTIVES_H
#define PSRT_DEVICE_CUDA_NCCL_COLLECTIVES_H

#include "runtime/device/cuda/nccl/NcclCommunication.h"

namespace psrt::nccl {

/// Bytes in which it works, besides its buffers.
int64_t scratchBytes(const NcclOp &op);
/// Fails on what NCCL does not have.
void checkBuilt(const NcclOp &op);
/// Enqueues it into its commStream.
void enqueue(const NcclOp &op, const Bound &bound, cuda::CudaRank &device);

} // namespace psrt::nccl

#endif
