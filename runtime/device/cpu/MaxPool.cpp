// Max pooling and its gradient: loops over planes.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/Windows.h"
#include <cmath>
#include <limits>

namespace psrt {
namespace {

/// The element of a plane that window `place` has its maximum at: the first one, or the last NaN;
/// -1 where no tap lies in the plane.
template <typename T> int64_t findMaximum(const WindowShape &s, const T *plane, int64_t place) {
  int64_t found = -1;
  T best = -std::numeric_limits<T>::infinity();
  forEachTap(s, place, [&](int64_t, int64_t element) {
    T value = plane[element];
    if (found < 0 || value > best || std::isnan(value)) {
      found = element;
      best = value;
    }
  });
  return found;
}

template <typename T> void pool(void *context, int, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const WindowShape &s = std::get<MaxPoolOp>(bound.instruction->op).windows;
  int64_t places = volume(s.out);
  for (int64_t i = lo; i < hi; ++i) {
    const T *x = static_cast<const T *>(bound.buffers[MaxPoolOp::X]) + i * volume(s.in);
    T *y = static_cast<T *>(bound.buffers[MaxPoolOp::Y]) + i * places;
    for (int64_t p = 0; p < places; ++p) {
      int64_t at = findMaximum(s, x, p);
      y[p] = at < 0 ? -std::numeric_limits<T>::infinity() : x[at];
    }
  }
}

template <typename T> void poolGrad(void *context, int, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const WindowShape &s = std::get<MaxPoolOp>(bound.instruction->op).windows;
  int64_t places = volume(s.out), elements = volume(s.in);
  for (int64_t i = lo; i < hi; ++i) {
    const T *x = static_cast<const T *>(bound.buffers[MaxPoolOp::X]) + i * elements;
    const T *y = static_cast<const T *>(bound.buffers[MaxPoolOp::Y]) + i * places;
    T *out = static_cast<T *>(bound.buffers[MaxPoolOp::Out]) + i * elements;
    std::fill(out, out + elements, T(0));
    for (int64_t p = 0; p < places; ++p)
      if (int64_t at = findMaximum(s, x, p); at >= 0)
        out[at] += y[p];
  }
}

template <typename T> void run(const Bound &bound) {
  const MaxPoolOp &op = std::get<MaxPoolOp>(bound.instruction->op);
  int64_t grain = std::max<int64_t>(1, 4096 / volume(op.windows.out));
  CpuRank::of(bound).pool.run(op.grad ? poolGrad<T> : pool<T>, const_cast<Bound *>(&bound),
                              op.planes, grain);
}

} // namespace

void bindMaxPool(CpuRank &, const MaxPoolOp &op, Bound &bound) {
  if (op.dtype == Dtype::F32)
    bound.run = run<float>;
  else if (op.dtype == Dtype::F64)
    bound.run = run<double>;
  else
    PSRT_FAIL(BadInput,
              "max pooling of %s is not built for the cpu yet; compile with --precision fp32",
              dtypeName(op.dtype));
}

} // namespace psrt
