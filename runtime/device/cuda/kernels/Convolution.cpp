// Computes convolutions directly, if cuDNN is not used. One thread or one warp sums each element of
// the result, in f64 for f64 tensors, else in f32. Memory accesses of neighboring threads are
// coalesced.
#include "runtime/device/cuda/kernels/Windows.h"

namespace psrt::cuda {
namespace {

/// Computes offsets in dense tensors: x and y are [batch, group, channel, position], and w is
/// [group, out channel, in channel, tap].
struct Layout {
  int64_t elements, positions, taps;

  PSRT_DEVICE explicit Layout(const ConvolutionArguments &a)
      : elements(volume(a.windows.in)), positions(volume(a.windows.out)),
        taps(volume(a.windows.kernel)) {}
  PSRT_DEVICE int64_t x(const ConvolutionArguments &a, int64_t n, int64_t g, int64_t c) const {
    return ((n * a.groups + g) * a.inChannels + c) * elements;
  }
  PSRT_DEVICE int64_t y(const ConvolutionArguments &a, int64_t n, int64_t g, int64_t o) const {
    return ((n * a.groups + g) * a.outChannels + o) * positions;
  }
  PSRT_DEVICE int64_t w(const ConvolutionArguments &a, int64_t g, int64_t o, int64_t c) const {
    return ((g * a.outChannels + o) * a.inChannels + c) * taps;
  }
};

constexpr int kChannels = 4; ///< channels per thread; they share each loaded element of x or y

/// Computes y. Each thread computes one position of kChannels output channels. Neighboring threads
/// have neighboring positions.
template <typename T, typename Out> PSRT_DEVICE void computeY(const ConvolutionArguments &a) {
  Layout at(a);
  auto *x = static_cast<const T *>(a.x);
  auto *w = static_cast<const T *>(a.w);
  int64_t blocks = (a.outChannels + kChannels - 1) / kChannels;
  int64_t count = a.batch * a.groups * blocks * at.positions;
  for (int64_t number = gridThread(); number < count; number += gridThreads()) {
    int64_t rest = number / at.positions, position = number - rest * at.positions;
    int64_t first = rest % blocks * kChannels, g = rest / blocks % a.groups;
    int64_t n = rest / blocks / a.groups;
    Sum<T> sums[kChannels] = {};
    for (int64_t c = 0; c < a.inChannels; ++c) {
      const T *from = x + at.x(a, n, g, c);
      forEachTap(a.windows, int32_t(position), [&](int32_t tap, int32_t element) {
        Sum<T> value = widen(from[element]);
#pragma unroll
        for (int e = 0; e < kChannels; ++e)
          if (first + e < a.outChannels)
            sums[e] += value * widen(w[at.w(a, g, first + e, c) + tap]);
      });
    }
#pragma unroll
    for (int e = 0; e < kChannels; ++e)
      if (first + e < a.outChannels)
        narrow(sums[e], static_cast<Out *>(a.out)[at.y(a, n, g, first + e) + position]);
  }
}

/// Computes the gradient of x. Each thread computes one element of kChannels input channels, and
/// visits the windows that contain this element.
template <typename T, typename Out> PSRT_DEVICE void computeX(const ConvolutionArguments &a) {
  Layout at(a);
  auto *y = static_cast<const T *>(a.y);
  auto *w = static_cast<const T *>(a.w);
  int64_t blocks = (a.inChannels + kChannels - 1) / kChannels;
  int64_t count = a.batch * a.groups * blocks * at.elements;
  for (int64_t number = gridThread(); number < count; number += gridThreads()) {
    int64_t rest = number / at.elements, element = number - rest * at.elements;
    int64_t first = rest % blocks * kChannels, g = rest / blocks % a.groups;
    int64_t n = rest / blocks / a.groups;
    Sum<T> sums[kChannels] = {};
    for (int64_t o = 0; o < a.outChannels; ++o) {
      const T *from = y + at.y(a, n, g, o);
      forEachWindow(a.windows, int32_t(element), [&](int32_t position, int32_t tap) {
        Sum<T> value = widen(from[position]);
#pragma unroll
        for (int e = 0; e < kChannels; ++e)
          if (first + e < a.inChannels)
            sums[e] += value * widen(w[at.w(a, g, o, first + e) + tap]);
      });
    }
#pragma unroll
    for (int e = 0; e < kChannels; ++e)
      if (first + e < a.inChannels)
        narrow(sums[e], static_cast<Out *>(a.out)[at.x(a, n, g, first + e) + element]);
  }
}

/// Returns the element of x at tap `tap` of the window at `position`, or -1 if the tap is outside
/// of x.
PSRT_DEVICE int64_t elementAt(const WindowArguments &s, int32_t position, const int32_t (&tap)[3]) {
  int32_t x[3], rest = position;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    x[d] = rest % s.out[d] * s.strides[d] - s.low[d] + tap[d] * s.dilation[d];
    rest /= s.out[d];
    if (x[d] < 0 || x[d] >= s.in[d])
      return -1;
  }
  return (x[0] * s.in[1] + x[1]) * s.in[2] + x[2];
}

PSRT_DEVICE float sumOverWarp(float value) { return sumOverLanes<32>(value); }
PSRT_DEVICE double sumOverWarp(double value) {
#pragma unroll
  for (uint32_t mask = 16; mask > 0; mask /= 2) {
    uint64_t bits = __builtin_bit_cast(uint64_t, value);
    uint64_t high = shuffleXor(uint32_t(bits >> 32), mask), low = shuffleXor(uint32_t(bits), mask);
    value += __builtin_bit_cast(double, high << 32 | low);
  }
  return value;
}

/// Computes the gradient of w with one warp per element. The positions of all images are split over
/// the lanes. The sums of the lanes are added in a fixed tree order.
template <typename T, typename Out> PSRT_DEVICE void computeW(const ConvolutionArguments &a) {
  Layout at(a);
  const WindowArguments &s = a.windows;
  auto *x = static_cast<const T *>(a.x);
  auto *y = static_cast<const T *>(a.y);
  int64_t count = a.groups * a.outChannels * a.inChannels * at.taps;
  for (int64_t number = gridThread() / 32; number < count; number += gridThreads() / 32) {
    int64_t tap = number % at.taps, rest = number / at.taps;
    int64_t c = rest % a.inChannels, o = rest / a.inChannels % a.outChannels;
    int64_t g = rest / a.inChannels / a.outChannels;
    int32_t plane = s.kernel[1] * s.kernel[2], inPlane = int32_t(tap) % plane;
    int32_t taps[3] = {int32_t(tap) / plane, inPlane / s.kernel[2], inPlane % s.kernel[2]};
    Sum<T> sum = 0;
    for (int64_t n = 0; n < a.batch; ++n) {
      const T *image = x + at.x(a, n, g, c), *cotangent = y + at.y(a, n, g, o);
      for (int64_t position = threadIndex() % 32; position < at.positions; position += 32) {
        int64_t element = elementAt(s, int32_t(position), taps);
        if (element >= 0)
          sum += Sum<T>(widen(image[element])) * widen(cotangent[position]);
      }
    }
    sum = sumOverWarp(sum);
    if (threadIndex() % 32 == 0)
      narrow(sum, static_cast<Out *>(a.out)[number]);
  }
}

} // namespace

#define PSRT_CONVOLUTIONS(SUFFIX, T, OUT)                                                          \
  PSRT_KERNEL(psrt_convolution_y_##SUFFIX, ConvolutionArguments) { computeY<T, OUT>(a); }          \
  PSRT_KERNEL(psrt_convolution_x_##SUFFIX, ConvolutionArguments) { computeX<T, OUT>(a); }          \
  PSRT_KERNEL(psrt_convolution_w_##SUFFIX, ConvolutionArguments) { computeW<T, OUT>(a); }

PSRT_CONVOLUTIONS(f32_f32, float, float)
PSRT_CONVOLUTIONS(f64_f64, double, double)
PSRT_CONVOLUTIONS(bf16_f32, Bf16, float)
PSRT_CONVOLUTIONS(bf16_bf16, Bf16, Bf16)
PSRT_CONVOLUTIONS(f16_f32, F16, float)
PSRT_CONVOLUTIONS(f16_f16, F16, F16)

} // namespace psrt::cuda
