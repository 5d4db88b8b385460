// Reads environment variables that enable or disable features.
#ifndef PSRT_DEVICE_CUDA_SWITCHES_H
#define PSRT_DEVICE_CUDA_SWITCHES_H

#include <optional>

namespace psrt::cuda {

/// Returns the variable's value, 0 or 1, or nullopt if it is unset or empty. Fails on any other
/// value.
std::optional<bool> readSwitch(const char *variable);

/// Returns true with PSRT_TF32=1: f32 matmuls may round their operands to TF32.
bool mayRoundToTf32();
/// Returns true with PSRT_NONDETERMINISTIC=1: the last bits of results may differ between runs.
bool mayBeNondeterministic();

} // namespace psrt::cuda

#endif
