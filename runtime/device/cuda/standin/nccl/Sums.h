// The arithmetic of the stand-in for NCCL.
#ifndef PSRT_DEVICE_CUDA_STANDIN_NCCL_SUMS_H
#define PSRT_DEVICE_CUDA_STANDIN_NCCL_SUMS_H

#include "runtime/comm/nccl/NcclApi.h"
#include <vector>

namespace psrt::standin {

/// Combines `count` elements of all parts, from the last to the first: NCCL promises no order, so
/// that what relies on one is found. 16-bit floats are rounded after each.
void combine(nccl::ncclRedOp_t op, nccl::ncclDataType_t type,
             const std::vector<const void *> &parts, void *out, size_t count);

} // namespace psrt::standin

#endif
