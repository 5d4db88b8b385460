// Reports the memory that instructions access to the fake driver. The fake driver checks that
// conflicting accesses are ordered.
#ifndef PSRT_DEVICE_CUDA_ACCESSES_H
#define PSRT_DEVICE_CUDA_ACCESSES_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Driver.h"
#include <vector>

namespace psrt::cuda {

/// Whether an instruction writes its buffer `index`.
bool writesBuffer(const Instruction &instruction, size_t index);

/// Of a bound instruction: its buffers to their ends in the plan of the memory.
std::vector<Access> accessesOf(const Bound &bound);

} // namespace psrt::cuda

#endif
