// Computes max pooling and its gradient. A plane is one channel of one image.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include "runtime/device/cpu/Windows.h"
#include <cmath>
#include <limits>

namespace psrt {
namespace {

/// Returns the index of a window's maximum within the plane. If several maxima are equal, returns
/// the first. If there are NaNs, returns the last NaN. Returns -1 if no tap of the window lies in
/// the plane.
template <typename T> int64_t findMaximum(const WindowShape &s, const T *plane, int64_t window) {
  int64_t found = -1;
  T best = -std::numeric_limits<T>::infinity();
  forEachTap(s, window, [&](int64_t, int64_t element) {
    T value = plane[element];
    if (found < 0 || value > best || std::isnan(value)) {
      found = element;
      best = value;
    }
  });
  return found;
}

template <typename T> void poolPlane(const WindowShape &s, const T *x, T *y) {
  for (int64_t p = 0; p < volume(s.out); ++p) {
    int64_t at = findMaximum(s, x, p);
    y[p] = at < 0 ? -std::numeric_limits<T>::infinity() : x[at];
  }
}

/// Computes the gradient of a plane. `y` is the cotangent of the pooled plane.
template <typename T> void poolGradPlane(const WindowShape &s, const T *x, const T *y, T *out) {
  std::fill(out, out + volume(s.in), T(0));
  for (int64_t p = 0; p < volume(s.out); ++p)
    if (int64_t at = findMaximum(s, x, p); at >= 0)
      out[at] += y[p];
}

/// Returns plane `i` of a buffer with `elements` elements per plane.
void *planeOf(const Bound &bound, const MaxPoolOp &op, int buffer, int64_t i, int64_t elements) {
  return elementAt(bound.buffers[buffer], op.dtype, i * elements);
}

template <typename T> void pool(void *context, int, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const MaxPoolOp &op = std::get<MaxPoolOp>(bound.instruction->op);
  int64_t positions = volume(op.windows.out), elements = volume(op.windows.in);
  for (int64_t i = lo; i < hi; ++i) {
    auto *x = static_cast<const T *>(planeOf(bound, op, MaxPoolOp::X, i, elements));
    auto *y = static_cast<T *>(planeOf(bound, op, MaxPoolOp::Y, i, positions));
    if (op.grad)
      poolGradPlane(op.windows, x, y,
                    static_cast<T *>(planeOf(bound, op, MaxPoolOp::Out, i, elements)));
    else
      poolPlane(op.windows, x, y);
  }
}

/// Pools 16-bit floats, widened to f32 planes in scratch memory.
void poolNarrow(void *context, int thread, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const MaxPoolOp &op = std::get<MaxPoolOp>(bound.instruction->op);
  int64_t positions = volume(op.windows.out), elements = volume(op.windows.in);
  float *x = CpuRank::of(bound).scratch(thread), *y = x + elements, *out = y + positions;
  for (int64_t i = lo; i < hi; ++i) {
    void *storedY = planeOf(bound, op, MaxPoolOp::Y, i, positions);
    widen(op.dtype, planeOf(bound, op, MaxPoolOp::X, i, elements), x, elements);
    if (op.grad) {
      widen(op.dtype, storedY, y, positions);
      poolGradPlane(op.windows, x, y, out);
      narrow(out, op.dtype, planeOf(bound, op, MaxPoolOp::Out, i, elements), elements);
    } else {
      poolPlane(op.windows, x, y);
      narrow(y, op.dtype, storedY, positions);
    }
  }
}

template <void piece(void *, int, int64_t, int64_t)> void run(const Bound &bound) {
  const MaxPoolOp &op = std::get<MaxPoolOp>(bound.instruction->op);
  int64_t grain = std::max<int64_t>(1, 4096 / volume(op.windows.out));
  CpuRank::of(bound).pool.run(piece, const_cast<Bound *>(&bound), op.planes, grain);
}

} // namespace

void bindCall(CpuRank &rank, const MaxPoolOp &op, Bound &bound) {
  if (op.dtype == Dtype::F32) {
    bound.run = run<pool<float>>;
  } else if (op.dtype == Dtype::F64) {
    bound.run = run<pool<double>>;
  } else if (isNarrowFloat(op.dtype)) {
    rank.needScratch((2 * volume(op.windows.in) + volume(op.windows.out)) * sizeof(float));
    bound.run = run<poolNarrow>;
  } else {
    PSRT_FAIL(BadInput, "max pooling of %s is not supported on the cpu; use f32, bf16, f16 or f64",
              dtypeName(op.dtype));
  }
}

} // namespace psrt
