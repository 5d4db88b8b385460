// Whether a machine can run a program, said before anything runs.
#ifndef PSRT_DEVICE_CUDA_REQUIREMENTS_H
#define PSRT_DEVICE_CUDA_REQUIREMENTS_H

#include "runtime/core/Program.h"
#include "runtime/device/cuda/Gpu.h"

namespace psrt::cuda {

/// The program's kernels run on the GPU; fails with what to compile.
void checkTarget(const Program &program, const Gpu &gpu);

/// The memory of `ranks` (their numbers in the mesh) fits into what is free; fails with what needs
/// it.
void checkMemory(const Program &program, const std::vector<int> &ranks, const Gpu &gpu);

} // namespace psrt::cuda

#endif
