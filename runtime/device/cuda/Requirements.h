// Checks that a machine can run a program before the program runs.
#ifndef PSRT_DEVICE_CUDA_REQUIREMENTS_H
#define PSRT_DEVICE_CUDA_REQUIREMENTS_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"

namespace psrt::cuda {

/// Fails unless the GPU can run the program's kernels; the error names the target to compile for.
void checkTarget(const Program &program, const Gpu &gpu);

/// Fails unless the memory of `ranks` (numbers in the mesh) fits into the GPU's free memory; the
/// error lists the largest users of memory.
void checkMemory(const Program &program, const std::vector<int> &ranks, const Gpu &gpu);

} // namespace psrt::cuda

#endif
