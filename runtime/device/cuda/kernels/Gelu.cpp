// Computes tanh GELUs and their derivatives, for matmuls without a fused GELU.
#include "runtime/device/cuda/kernels/Arguments.h"
#include "runtime/device/cuda/kernels/Kernel.h"

namespace psrt::cuda {
namespace {

constexpr float kTwiceSqrt2OverPi = 1.59576912160573071176f, kCubic = 0.044715f;

/// Returns (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), where u = sqrt(2 / pi) (x + 0.044715 x^3).
PSRT_DEVICE float gate(float x) {
  return 1 / (1 + exponential(-kTwiceSqrt2OverPi * (x + kCubic * x * x * x)));
}

/// Returns the GELU's derivative p + x p (1 - p) (2 u)', where p is the gate. (2 u)' may be
/// infinite, so the second term is omitted if x p (1 - p) is zero.
PSRT_DEVICE float slope(float x) {
  float p = gate(x), bell = x * p * (1 - p);
  return bell == 0 ? p : p + bell * kTwiceSqrt2OverPi * (1 + 3 * kCubic * x * x);
}

/// Processes elements in packs of `unit` elements.
template <typename T, int unit, bool isGrad> PSRT_DEVICE void each(const GeluArguments &a) {
  using Unit = Pack<T, unit>;
  for (int64_t i = gridThread(); i < a.count / unit; i += gridThreads()) {
    Unit x = static_cast<const Unit *>(a.x)[i], out = x;
    if constexpr (isGrad)
      out = static_cast<const Unit *>(a.grad)[i];
#pragma unroll
    for (int e = 0; e < unit; ++e) {
      float at = widen(x.elements[e]);
      narrow(isGrad ? widen(out.elements[e]) * slope(at) : at * gate(at), out.elements[e]);
    }
    static_cast<Unit *>(a.out)[i] = out;
  }
}

template <typename T, bool isGrad> PSRT_DEVICE void all(const GeluArguments &a) {
  a.packed ? each<T, 4, isGrad>(a) : each<T, 1, isGrad>(a);
}

} // namespace

PSRT_KERNEL(psrt_gelu_f32, GeluArguments) { all<float, false>(a); }
PSRT_KERNEL(psrt_gelu_bf16, GeluArguments) { all<Bf16, false>(a); }
PSRT_KERNEL(psrt_gelu_f16, GeluArguments) { all<F16, false>(a); }
PSRT_KERNEL(psrt_gelu_grad_f32, GeluArguments) { all<float, true>(a); }
PSRT_KERNEL(psrt_gelu_grad_bf16, GeluArguments) { all<Bf16, true>(a); }
PSRT_KERNEL(psrt_gelu_grad_f16, GeluArguments) { all<F16, true>(a); }

} // namespace psrt::cuda
