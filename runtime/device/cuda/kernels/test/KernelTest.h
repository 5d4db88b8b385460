// Provides functions for kernel tests, which compare the replay image with the CPU device.
#ifndef PSRT_DEVICE_CUDA_KERNELS_TEST_KERNELTEST_H
#define PSRT_DEVICE_CUDA_KERNELS_TEST_KERNELTEST_H

#include "runtime/conformance/DeviceFixture.h"
#include "runtime/device/cuda/kernels/test/ReplayRunner.h"
#include <gtest/gtest.h>

namespace psrt::cuda {

using Bytes = std::vector<char>;

template <typename T> Bytes bytesOf(const std::vector<T> &values) {
  auto *begin = reinterpret_cast<const char *>(values.data());
  return Bytes(begin, begin + values.size() * sizeof(T));
}
template <typename T> std::vector<T> valuesOf(const Bytes &bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
  return result;
}

/// Returns the addresses of buffers, and null for each empty buffer.
inline std::vector<void *> pointersTo(std::vector<Bytes> &buffers) {
  std::vector<void *> result;
  for (Bytes &bytes : buffers)
    result.push_back(bytes.empty() ? nullptr : bytes.data());
  return result;
}

/// Returns the buffers in the form that DeviceFixture takes.
inline std::vector<TestBuffer> buffersOf(std::vector<Bytes> &buffers) {
  return {buffers.begin(), buffers.end()};
}

/// Returns the largest difference between floats, or infinity if the sizes differ. Two NaNs count
/// as equal.
inline double distance(const Bytes &found, const Bytes &want, Dtype dtype) {
  double worst = found.size() == want.size() ? 0 : INFINITY;
  int64_t size = dtypeSize(dtype), count = std::min(found.size(), want.size()) / size;
  for (int64_t i = 0; i < count; ++i) {
    double x = loadFloat(found.data() + i * size, dtype);
    double y = loadFloat(want.data() + i * size, dtype);
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    double difference = std::fabs(x - y);
    worst = std::isnan(difference) ? INFINITY : std::max(worst, difference);
  }
  return worst;
}

} // namespace psrt::cuda

#endif
