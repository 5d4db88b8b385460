// Bits of 16-bit floats, and conversion between float dtypes.
#include "runtime/core/Element.h"
#include <cmath>

namespace psrt {
namespace {

uint16_t toHalf(float value) {
  uint32_t bits = castBits<uint32_t>(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) // NaN
    return uint16_t(sign | 0x7e00);
  if (rest >= 0x477ff000) // from 65520 on: infinite
    return uint16_t(sign | 0x7c00);
  if (rest < 0x38800000) // below 2^-14: a multiple of 2^-24
    return uint16_t(sign | uint32_t(std::nearbyint(std::fabs(value) * 0x1p24f)));
  return uint16_t(sign | (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13);
}

float fromHalf(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, rest = bits & 0x7fff;
  if (rest >= 0x7c00)
    return castBits<float>(sign | 0x7f800000 | rest << 13);
  if (rest < 0x400)
    return std::copysign(float(rest) * 0x1p-24f, castBits<float>(sign));
  return castBits<float>(sign | (rest << 13) + 0x38000000);
}

template <typename T> T read(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

} // namespace

bool isFloat(Dtype dtype) {
  return dtype == Dtype::F32 || dtype == Dtype::F64 || dtype == Dtype::F16 || dtype == Dtype::BF16;
}

double loadFloat(const char *at, Dtype dtype) {
  switch (dtype) {
  case Dtype::F64:
    return read<double>(at);
  case Dtype::F16:
    return fromHalf(read<uint16_t>(at));
  case Dtype::BF16:
    return fromBfloat16(read<uint16_t>(at));
  default:
    return read<float>(at);
  }
}

void storeElement(char *at, Dtype dtype, double value) {
  float single = float(value);
  uint16_t half = dtype == Dtype::F16 ? toHalf(single) : toBfloat16(single);
  int64_t integer = std::isfinite(value) ? int64_t(value) : 0;
  if (dtype == Dtype::F32)
    std::memcpy(at, &single, 4);
  else if (dtype == Dtype::F64)
    std::memcpy(at, &value, 8);
  else if (isFloat(dtype))
    std::memcpy(at, &half, 2);
  else
    std::memcpy(at, &integer, dtypeSize(dtype));
}

void convertFloats(const char *from, Dtype fromDtype, char *to, Dtype toDtype, int64_t count) {
  int64_t fromSize = dtypeSize(fromDtype), toSize = dtypeSize(toDtype);
  for (int64_t i = 0; i < count; ++i)
    storeElement(to + i * toSize, toDtype, loadFloat(from + i * fromSize, fromDtype));
}

} // namespace psrt
