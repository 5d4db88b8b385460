// Implements the arithmetic of the fake NCCL.
#ifndef PSRT_TESTING_NCCL_SUMS_H
#define PSRT_TESTING_NCCL_SUMS_H

#include "runtime/device/cuda/nccl/NcclApi.h"
#include <vector>

namespace psrt::fake {

/// Reduces `count` elements of all parts, from the last part to the first. NCCL guarantees no
/// order, so code that relies on the order of ranks fails here. 16-bit floats are rounded after
/// each step.
void combine(nccl::ncclRedOp_t op, nccl::ncclDataType_t type,
             const std::vector<const void *> &parts, void *out, size_t count);

} // namespace psrt::fake

#endif
