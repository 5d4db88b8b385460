// Single elements of any dtype as numbers, and whole tensors converted from one float to another.
#ifndef PSRT_CORE_ELEMENT_H
#define PSRT_CORE_ELEMENT_H

#include "runtime/core/Program.h"
#include <cmath>
#include <cstring>

namespace psrt {

bool isFloat(Dtype dtype);
/// Whether it is a float of 8 bits, which matmuls alone read as a number.
bool isFloat8(Dtype dtype);
/// Whether it is a float of 16 bits.
bool isNarrowFloat(Dtype dtype);

template <typename To, typename From> To castBits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline float fromBfloat16(uint16_t bits) { return castBits<float>(uint32_t(bits) << 16); }

/// To the nearest, ties to even.
inline uint16_t toBfloat16(float value) {
  uint32_t bits = castBits<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return uint16_t(bits >> 16 | 0x40); // a NaN stays one: rounding could carry into the sign
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

/// To the nearest, ties to even.
inline uint16_t toHalf(float value) {
  uint32_t bits = castBits<uint32_t>(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) // NaN
    return uint16_t(sign | 0x7e00);
  if (rest >= 0x477ff000) // from 65520 on: infinite
    return uint16_t(sign | 0x7c00);
  if (rest < 0x38800000) // below 2^-14: a multiple of 2^-24
    return uint16_t(sign | uint32_t(std::nearbyint(std::fabs(value) * 0x1p24f)));
  return uint16_t(sign | (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13);
}

/// One element of a float dtype as a number.
double loadFloat(const char *at, Dtype dtype);

/// Stores a number as one element: rounded to the nearest (ties to even), in integers cut off.
void storeElement(char *at, Dtype dtype, double value);

/// Returns the index of the first element that is nan or infinite; -1: none is, or the dtype is no
/// float of 16 bits or more.
int64_t findNotFinite(const char *data, Dtype dtype, int64_t count);

/// Converts `count` elements between float dtypes.
void convertFloats(const char *from, Dtype fromDtype, char *to, Dtype toDtype, int64_t count);

} // namespace psrt

#endif
