// Defines the memory that a rank on a GPU needs in addition to its program's planned memory.
#ifndef PSRT_DEVICE_CUDA_WORKSPACE_H
#define PSRT_DEVICE_CUDA_WORKSPACE_H

#include "runtime/core/Program.h"

namespace psrt::cuda {

/// Bytes of cuBLASLt's workspace for partial results. Each rank allocates its workspace when the
/// first matmul is bound.
inline constexpr size_t kWorkspaceBytes = size_t(32) << 20;

/// Limit in bytes on GPU memory for prefetched inputs of the next step. Inputs beyond this limit
/// are copied after the current step.
inline constexpr size_t kLandingBytes = size_t(256) << 20;

/// Returns the bytes of workspace and prefetched inputs per rank of a pipeline coordinate.
inline int64_t bytesBesides(const Program &program, int64_t coordinate) {
  int64_t inputs = 0;
  for (const Input &input : program.inputs)
    for (const Addresses &addresses : input.addresses)
      if (addresses.isAt(coordinate))
        inputs += input.placement.localCount() * dtypeSize(input.dtype);
  return int64_t(kWorkspaceBytes) + std::min(inputs, int64_t(kLandingBytes));
}

} // namespace psrt::cuda

#endif
