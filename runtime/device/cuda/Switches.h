// What users switch on and off by variables of the environment.
#ifndef PSRT_DEVICE_CUDA_SWITCHES_H
#define PSRT_DEVICE_CUDA_SWITCHES_H

#include <optional>

namespace psrt::cuda {

/// 0 or 1; nothing where the variable is not set, or empty. Fails on all else.
std::optional<bool> readSwitch(const char *variable);

/// PSRT_TF32=1: matmuls of f32 may round their operands to TF32.
bool mayRoundToTf32();
/// PSRT_NONDETERMINISTIC=1: two runs may differ in their last bits.
bool mayBeNondeterministic();

} // namespace psrt::cuda

#endif
