// Max pooling, and its gradient by looking from each element at the windows that see it.
#include "runtime/device/cuda/kernels/Windows.h"

namespace psrt::cuda {
namespace {

/// The element that window `place` has its maximum at: the first one, or the last NaN; -1 where no
/// tap lies in the plane.
template <typename T>
PSRT_DEVICE int32_t findMaximum(const WindowArguments &s, const T *plane, int32_t place) {
  int32_t found = -1;
  Sum<T> best = -Sum<T>(infinity());
  forEachTap(s, place, [&](int32_t, int32_t element) {
    Sum<T> value = widen(plane[element]);
    if (found < 0 || value > best || value != value) {
      found = element;
      best = value;
    }
  });
  return found;
}

template <typename T> PSRT_DEVICE void pool(const MaxPoolArguments &a) {
  int64_t places = volume(a.windows.out), elements = volume(a.windows.in);
  auto *x = static_cast<const T *>(a.x);
  auto *y = static_cast<T *>(a.out);
  for (int64_t at = gridThread(); at < a.planes * places; at += gridThreads()) {
    int64_t plane = at / places;
    const T *from = x + plane * elements;
    int32_t found = findMaximum(a.windows, from, int32_t(at - plane * places));
    if (found < 0)
      narrow(-Sum<T>(infinity()), y[at]);
    else
      y[at] = from[found];
  }
}

/// Each window is searched anew by every element that it covers: no place of its maximum is kept,
/// and nothing is added by atomics, so the order of a sum is that of the windows.
template <typename T> PSRT_DEVICE void poolGrad(const MaxPoolArguments &a) {
  int64_t places = volume(a.windows.out), elements = volume(a.windows.in);
  auto *out = static_cast<T *>(a.out);
  for (int64_t at = gridThread(); at < a.planes * elements; at += gridThreads()) {
    int64_t plane = at / elements;
    int32_t element = int32_t(at - plane * elements);
    const T *x = static_cast<const T *>(a.x) + plane * elements;
    const T *y = static_cast<const T *>(a.y) + plane * places;
    Sum<T> sum = 0;
    forEachWindow(a.windows, element, [&](int32_t place, int32_t) {
      if (findMaximum(a.windows, x, place) == element)
        sum += widen(y[place]);
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
