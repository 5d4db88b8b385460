// Accesses elements of any dtype as numbers and converts tensors between float dtypes.
#ifndef PSRT_CORE_ELEMENT_H
#define PSRT_CORE_ELEMENT_H

#include "runtime/core/Program.h"
#include <cmath>
#include <cstring>

namespace psrt {

/// Returns whether the dtype is a float of at least 16 bits.
bool isFloat(Dtype dtype);
/// Returns whether the dtype is an 8-bit float. Of all library ops, only matmuls read 8-bit floats
/// as numbers.
bool isFloat8(Dtype dtype);
/// Returns whether the dtype is a 16-bit float.
bool isNarrowFloat(Dtype dtype);

/// Returns the bits of `from` as another type of the same size.
template <typename To, typename From> To castBits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline float fromBfloat16(uint16_t bits) { return castBits<float>(uint32_t(bits) << 16); }

/// Rounds to nearest, ties to even.
inline uint16_t toBfloat16(float value) {
  uint32_t bits = castBits<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return uint16_t(bits >> 16 | 0x40); // keep a NaN: rounding could carry into the sign
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00)
    return castBits<float>(sign | 0x7f800000 | rest << 13);
  if (rest < 0x400)
    return std::copysign(float(rest) * 0x1p-24f, castBits<float>(sign));
  return castBits<float>(sign | ((rest << 13) + 0x38000000));
}

/// Rounds to nearest, ties to even.
inline uint16_t toHalf(float value) {
  uint32_t bits = castBits<uint32_t>(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) // NaN
    return uint16_t(sign | 0x7e00);
  if (rest >= 0x477ff000) // 65520 and larger: infinite
    return uint16_t(sign | 0x7c00);
  if (rest < 0x38800000) // below 2^-14: a multiple of 2^-24
    return uint16_t(sign | uint32_t(std::nearbyint(std::fabs(value) * 0x1p24f)));
  return uint16_t(sign | (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13);
}

/// Returns one element of a float dtype as a number.
double loadFloat(const char *at, Dtype dtype);

/// Stores a number as one element: floats round to nearest (ties to even), integers truncate.
void storeElement(char *at, Dtype dtype, double value);

/// Returns the index of the first nan or infinite element. Returns -1 if all are finite, or if the
/// dtype is not a float of at least 16 bits.
int64_t findNotFinite(const char *data, Dtype dtype, int64_t count);

/// Converts `count` elements between float dtypes.
void convertFloats(const char *from, Dtype fromDtype, char *to, Dtype toDtype, int64_t count);

} // namespace psrt

#endif
