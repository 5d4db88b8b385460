// Converts rows of 16-bit floats to f32 and back. The CPU device computes most ops on 16-bit floats
// in f32.
#ifndef PSRT_DEVICE_CPU_NARROWFLOAT_H
#define PSRT_DEVICE_CPU_NARROWFLOAT_H

#include "runtime/core/Element.h"
#include "runtime/device/cpu/RowMath.h"
#include <type_traits>

namespace psrt {

/// Returns the address of element `index` of a buffer.
template <typename T> T *elementAt(T *buffer, Dtype dtype, int64_t index) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return static_cast<Byte *>(buffer) + index * dtypeSize(dtype);
}

/// Sets to[j] = from[j] for j < n, widened from 16-bit floats.
inline void widen(Dtype dtype, const void *from, float *to, int64_t n) {
  auto *bits = static_cast<const uint16_t *>(from);
  dtype == Dtype::F16 ? rowMath().widenHalf(bits, to, n) : rowMath().widenBfloat16(bits, to, n);
}

/// Sets to[j] = from[j] for j < n, rounded to 16-bit floats. `to` may equal `from`.
inline void narrow(const float *from, Dtype dtype, void *to, int64_t n) {
  auto *bits = static_cast<uint16_t *>(to);
  dtype == Dtype::F16 ? rowMath().narrowToHalf(from, bits, n)
                      : rowMath().narrowToBfloat16(from, bits, n);
}

/// A 16-bit float that converts to and from double, for code that processes single elements.
template <Dtype dtype> struct NarrowFloat {
  uint16_t bits = 0;
  NarrowFloat(double value)
      : bits(dtype == Dtype::F16 ? toHalf(float(value)) : toBfloat16(float(value))) {}
  operator double() const { return dtype == Dtype::F16 ? fromHalf(bits) : fromBfloat16(bits); }
};

} // namespace psrt

#endif
