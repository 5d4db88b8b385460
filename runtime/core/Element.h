// Single elements of any dtype as numbers, and whole tensors converted from one float to another.
#ifndef PSRT_CORE_ELEMENT_H
#define PSRT_CORE_ELEMENT_H

#include "runtime/core/Program.h"
#include <cstring>

namespace psrt {

bool isFloat(Dtype dtype);

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

/// One element of a float dtype as a number.
double loadFloat(const char *at, Dtype dtype);

/// Stores a number as one element: rounded to the nearest (ties to even), in integers cut off.
void storeElement(char *at, Dtype dtype, double value);

/// Converts `count` elements between float dtypes.
void convertFloats(const char *from, Dtype fromDtype, char *to, Dtype toDtype, int64_t count);

} // namespace psrt

#endif
