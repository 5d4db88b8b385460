// Checks that a machine can run a program before the program runs.
#ifndef PSRT_DEVICE_CUDA_REQUIREMENTS_H
#define PSRT_DEVICE_CUDA_REQUIREMENTS_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"

namespace psrt::cuda {

/// Fails if the GPU cannot run the program's kernels. The error names the target to compile for.
void checkTarget(const Program &program, const Gpu &gpu);

/// Fails if the memory of `ranks` (rank numbers) does not fit into the GPU's free memory. The error
/// lists the kinds of data that need the most memory.
void checkMemory(const Program &program, const std::vector<int> &ranks, const Gpu &gpu);

} // namespace psrt::cuda

#endif
