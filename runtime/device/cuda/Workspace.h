// What a rank on a GPU needs besides the memory that its program plans.
#ifndef PSRT_DEVICE_CUDA_WORKSPACE_H
#define PSRT_DEVICE_CUDA_WORKSPACE_H

#include <cstddef>

namespace psrt::cuda {

/// In which cuBLASLt may keep parts of sums; one for each rank, allocated with its first product.
inline constexpr size_t kWorkspaceBytes = size_t(32) << 20;

/// At most, in which the inputs of the next step wait while one runs; larger ones come when it is
/// over.
inline constexpr size_t kLandingBytes = size_t(256) << 20;

} // namespace psrt::cuda

#endif
