// Iterates over the input elements of a window, for max pooling and plain loops of convolutions.
#ifndef PSRT_DEVICE_CPU_WINDOWS_H
#define PSRT_DEVICE_CPU_WINDOWS_H

#include "runtime/core/Program.h"

namespace psrt {

inline int64_t volume(const std::array<int64_t, 3> &sizes) {
  return sizes[0] * sizes[1] * sizes[2];
}

/// Calls visit(tap, element) for each tap of window `window` that lies in x, in ascending order of
/// taps. A tap is an index of the kernel; `element` is the index in x of the element at this tap.
/// Windows, taps and elements are numbered in row-major order. Example: for a 1-d kernel of 3 taps
/// with low padding 1, window 0 visits (1, 0) and (2, 1), as tap 0 lies in the padding.
template <typename Visit> void forEachTap(const WindowShape &s, int64_t window, Visit visit) {
  int64_t begin[3], rest = window;
  for (int d = 2; d >= 0; --d) {
    begin[d] = rest % s.out[d] * s.strides[d] - s.low[d];
    rest /= s.out[d];
  }
  for (int64_t i = 0; i < s.kernel[0]; ++i) {
    int64_t a = begin[0] + i * s.dilation[0];
    if (a < 0 || a >= s.in[0])
      continue;
    for (int64_t j = 0; j < s.kernel[1]; ++j) {
      int64_t b = begin[1] + j * s.dilation[1];
      if (b < 0 || b >= s.in[1])
        continue;
      for (int64_t k = 0; k < s.kernel[2]; ++k) {
        int64_t c = begin[2] + k * s.dilation[2];
        if (c >= 0 && c < s.in[2])
          visit((i * s.kernel[1] + j) * s.kernel[2] + k, (a * s.in[1] + b) * s.in[2] + c);
      }
    }
  }
}

} // namespace psrt

#endif
