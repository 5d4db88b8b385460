// Computes max pooling and its gradient. For the gradient, each element visits the windows that
// contain the element.
#include "runtime/device/cuda/kernels/Windows.h"

namespace psrt::cuda {
namespace {

/// Returns the index within the plane of the maximum of the window at `position`. If several maxima
/// are equal, returns the first. If there are NaNs, returns the last NaN. Returns -1 if no tap of
/// the window lies in the plane.
template <typename T>
PSRT_DEVICE int32_t findMaximum(const WindowArguments &s, const T *plane, int32_t position) {
  int32_t found = -1;
  Sum<T> best = -Sum<T>(infinity());
  forEachTap(s, position, [&](int32_t, int32_t element) {
    Sum<T> value = widen(plane[element]);
    if (found < 0 || value > best || value != value) {
      found = element;
      best = value;
    }
  });
  return found;
}

template <typename T> PSRT_DEVICE void pool(const MaxPoolArguments &a) {
  int64_t positions = volume(a.windows.out), elements = volume(a.windows.in);
  auto *x = static_cast<const T *>(a.x);
  auto *y = static_cast<T *>(a.out);
  for (int64_t at = gridThread(); at < a.planes * positions; at += gridThreads()) {
    int64_t plane = at / positions;
    const T *from = x + plane * elements;
    int32_t found = findMaximum(a.windows, from, int32_t(at - plane * positions));
    if (found < 0)
      narrow(-Sum<T>(infinity()), y[at]);
    else
      y[at] = from[found];
  }
}

/// Computes the gradient. Searches a window again for every element that the window covers. The
/// kernel therefore stores no indices of maxima and uses no atomics. Each element adds the
/// cotangents in the order of the windows.
template <typename T> PSRT_DEVICE void poolGrad(const MaxPoolArguments &a) {
  int64_t positions = volume(a.windows.out), elements = volume(a.windows.in);
  auto *out = static_cast<T *>(a.out);
  for (int64_t at = gridThread(); at < a.planes * elements; at += gridThreads()) {
    int64_t plane = at / elements;
    int32_t element = int32_t(at - plane * elements);
    const T *x = static_cast<const T *>(a.x) + plane * elements;
    const T *y = static_cast<const T *>(a.y) + plane * positions;
    Sum<T> sum = 0;
    forEachWindow(a.windows, element, [&](int32_t position, int32_t) {
      if (findMaximum(a.windows, x, position) == element)
        sum += widen(y[position]);
    });
    narrow(sum, out[at]);
  }
}

} // namespace

PSRT_KERNEL(psrt_max_pool_f32, MaxPoolArguments) { pool<float>(a); }
PSRT_KERNEL(psrt_max_pool_f64, MaxPoolArguments) { pool<double>(a); }
PSRT_KERNEL(psrt_max_pool_bf16, MaxPoolArguments) { pool<Bf16>(a); }
PSRT_KERNEL(psrt_max_pool_f16, MaxPoolArguments) { pool<F16>(a); }
PSRT_KERNEL(psrt_max_pool_grad_f32, MaxPoolArguments) { poolGrad<float>(a); }
PSRT_KERNEL(psrt_max_pool_grad_f64, MaxPoolArguments) { poolGrad<double>(a); }
PSRT_KERNEL(psrt_max_pool_grad_bf16, MaxPoolArguments) { poolGrad<Bf16>(a); }
PSRT_KERNEL(psrt_max_pool_grad_f16, MaxPoolArguments) { poolGrad<F16>(a); }

} // namespace psrt::cuda
