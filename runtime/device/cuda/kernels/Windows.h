// Enumerates the taps (kernel indices) of a window, and the windows that contain an element, in
// planes or volumes. All indices are row-major and visited in ascending order.
#ifndef PSRT_DEVICE_CUDA_KERNELS_WINDOWS_H
#define PSRT_DEVICE_CUDA_KERNELS_WINDOWS_H

#include "runtime/device/cuda/kernels/Arguments.h"
#include "runtime/device/cuda/kernels/Kernel.h"

namespace psrt::cuda {

PSRT_DEVICE int64_t volume(const int32_t (&sizes)[3]) {
  return int64_t(sizes[0]) * sizes[1] * sizes[2];
}

/// Calls visit(tap, element) for each tap of the window at `position` that lies in the plane.
/// `element` is the index of the plane's element at this tap.
template <typename Visit>
PSRT_DEVICE void forEachTap(const WindowArguments &s, int32_t position, Visit visit) {
  int32_t begin[3], rest = position;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    begin[d] = rest % s.out[d] * s.strides[d] - s.low[d];
    rest /= s.out[d];
  }
  for (int32_t i = 0; i < s.kernel[0]; ++i) {
    int32_t a = begin[0] + i * s.dilation[0];
    if (a < 0 || a >= s.in[0])
      continue;
    for (int32_t j = 0; j < s.kernel[1]; ++j) {
      int32_t b = begin[1] + j * s.dilation[1];
      if (b < 0 || b >= s.in[1])
        continue;
      for (int32_t k = 0; k < s.kernel[2]; ++k) {
        int32_t c = begin[2] + k * s.dilation[2];
        if (c >= 0 && c < s.in[2])
          visit((i * s.kernel[1] + j) * s.kernel[2] + k, (a * s.in[1] + b) * s.in[2] + c);
      }
    }
  }
}

/// The windows [first, last] that may contain index x of dim d. tapOf() returns the tap at which
/// `window`, one of these windows, contains x. Because of the dilation, x may lie between two taps;
/// tapOf() then returns -1.
struct WindowRange {
  int32_t first, last;
};
PSRT_DEVICE WindowRange windowsOver(const WindowArguments &s, int d, int32_t x) {
  int32_t at = x + s.low[d], reach = (s.kernel[d] - 1) * s.dilation[d], stride = s.strides[d];
  int32_t first = at > reach ? (at - reach + stride - 1) / stride : 0, last = at / stride;
  return {first, last < s.out[d] ? last : s.out[d] - 1};
}
PSRT_DEVICE int32_t tapOf(const WindowArguments &s, int d, int32_t x, int32_t window) {
  int32_t offset = x + s.low[d] - window * s.strides[d];
  return offset % s.dilation[d] == 0 ? offset / s.dilation[d] : -1;
}

/// Calls visit(position, tap) for each window that has a tap at `element`.
template <typename Visit>
PSRT_DEVICE void forEachWindow(const WindowArguments &s, int32_t element, Visit visit) {
  int32_t x[3], rest = element;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    x[d] = rest % s.in[d];
    rest /= s.in[d];
  }
  WindowRange a = windowsOver(s, 0, x[0]), b = windowsOver(s, 1, x[1]), c = windowsOver(s, 2, x[2]);
  for (int32_t i = a.first; i <= a.last; ++i)
    for (int32_t j = b.first; j <= b.last; ++j)
      for (int32_t k = c.first; k <= c.last; ++k) {
        int32_t p = tapOf(s, 0, x[0], i), q = tapOf(s, 1, x[1], j), r = tapOf(s, 2, x[2], k);
        if (p >= 0 && q >= 0 && r >= 0)
          visit((i * s.out[1] + j) * s.out[2] + k, (p * s.kernel[1] + q) * s.kernel[2] + r);
      }
}

} // namespace psrt::cuda

#endif
