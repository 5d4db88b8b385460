// What a rank on a GPU needs besides the memory that its program plans.
#ifndef PSRT_DEVICE_CUDA_WORKSPACE_H
#define PSRT_DEVICE_CUDA_WORKSPACE_H

#include "runtime/core/Program.h"

namespace psrt::cuda {

/// In which cuBLASLt may keep parts of sums; one for each rank, allocated with its first matmul.
inline constexpr size_t kWorkspaceBytes = size_t(32) << 20;

/// At most, in which the inputs of the next step wait while one runs; larger ones come when it is
/// over.
inline constexpr size_t kLandingBytes = size_t(256) << 20;

/// Of both together, for a rank of a pipeline coordinate.
inline int64_t bytesBesides(const Program &program, int64_t stage) {
  int64_t inputs = 0;
  for (const Input &input : program.inputs)
    for (const Addresses &addresses : input.addresses)
      if (addresses.isAt(stage))
        inputs += input.placement.localCount() * dtypeSize(input.dtype);
  return int64_t(kWorkspaceBytes) + std::min(inputs, int64_t(kLandingBytes));
}

} // namespace psrt::cuda

#endif
