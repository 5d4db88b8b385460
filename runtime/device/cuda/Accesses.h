// Reports to the fake driver which memory the instructions access. The fake driver checks that
// conflicting accesses are ordered.
#ifndef PSRT_DEVICE_CUDA_ACCESSES_H
#define PSRT_DEVICE_CUDA_ACCESSES_H

#include "runtime/core/Backend.h"
#include "runtime/device/cuda/Driver.h"
#include <vector>

namespace psrt::cuda {

/// Returns true if the instruction writes its buffer `index`.
bool writesBuffer(const Instruction &instruction, size_t index);

/// Returns the address ranges that a bound instruction reads and writes. Ranges are clipped to each
/// buffer's extent in the memory plan.
std::vector<Access> accessesOf(const Bound &bound);

} // namespace psrt::cuda

#endif
