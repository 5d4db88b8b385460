// Provides functions that build kernel launches.
#ifndef PSRT_DEVICE_CUDA_KERNELS_LAUNCHHELPERS_H
#define PSRT_DEVICE_CUDA_KERNELS_LAUNCHHELPERS_H

#include "runtime/device/cuda/kernels/Arguments.h"
#include "runtime/device/cuda/kernels/Launches.h"
#include <cstring>
#include <initializer_list>
#include <type_traits>

namespace psrt::cuda {

template <typename Arguments>
KernelLaunch makeLaunch(std::string kernel, int64_t grid, uint32_t block,
                        const Arguments &arguments) {
  static_assert(std::is_trivially_copyable_v<Arguments> && sizeof(Arguments) <= 4096);
  KernelLaunch launch{std::move(kernel), uint32_t(grid), block, {}};
  launch.arguments.resize(sizeof(Arguments));
  std::memcpy(launch.arguments.data(), &arguments, sizeof(Arguments));
  return launch;
}

/// Returns the number of blocks for a loop over `count` items with `each` items per block, but at
/// most 8192. This limit fills any GPU several times. With more items, each thread processes
/// several items.
inline int64_t blocksFor(int64_t count, int64_t each) {
  return std::clamp<int64_t>((count + each - 1) / each, 1, 8192);
}

/// Returns the largest power of two, up to 16, that divides all `numbers` (byte counts or
/// addresses).
inline int64_t commonUnit(std::initializer_list<int64_t> numbers) {
  int64_t all = 16;
  for (int64_t number : numbers)
    all |= number;
  return all & -all;
}
inline int64_t address(const void *pointer) { return reinterpret_cast<int64_t>(pointer); }

inline WindowArguments toArguments(const WindowShape &shape) {
  WindowArguments result;
  for (int d = 0; d < 3; ++d) {
    result.in[d] = int32_t(shape.in[d]), result.out[d] = int32_t(shape.out[d]);
    result.kernel[d] = int32_t(shape.kernel[d]), result.strides[d] = int32_t(shape.strides[d]);
    result.low[d] = int32_t(shape.low[d]), result.dilation[d] = int32_t(shape.dilation[d]);
  }
  return result;
}

inline int64_t volumeOf(const std::array<int64_t, 3> &sizes) {
  return sizes[0] * sizes[1] * sizes[2];
}

} // namespace psrt::cuda

#endif
