// Converts elements.
#include "runtime/testing/cublaslt/Elements.h"
#include "runtime/core/Element.h"
#include "runtime/device/cuda/CublasLtApi.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace psrt::fake {

using namespace psrt::cuda;

namespace {

struct Fp8Format {
  int mantissaBits, bias;
  uint8_t largest; ///< the bits of the largest number; a NaN or infinity follows
  uint8_t nan;
};
constexpr Fp8Format e4m3{3, 7, 0x7e, 0x7f}, e5m2{2, 15, 0x7b, 0x7f};

const Fp8Format &formatOf(int32_t type) { return type == CUDA_R_8F_E4M3 ? e4m3 : e5m2; }

float decode(uint8_t bits, const Fp8Format &format) {
  int rest = bits & 0x7f, ones = 1 << format.mantissaBits;
  float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (rest > format.largest)
    return rest == 0x7c && &format == &e5m2 ? sign * std::numeric_limits<float>::infinity()
                                            : std::numeric_limits<float>::quiet_NaN();
  int exponent = std::max(rest >> format.mantissaBits, 1);
  int mantissa = rest < ones ? rest : ones + (rest & (ones - 1));
  return sign * std::ldexp(float(mantissa), exponent - format.bias - format.mantissaBits);
}

std::array<float, 256> decodeAll(const Fp8Format &format) {
  std::array<float, 256> values;
  for (int bits = 0; bits < 256; ++bits)
    values[size_t(bits)] = decode(uint8_t(bits), format);
  return values;
}

const std::array<float, 256> &valuesOf(int32_t type) {
  static const std::array<float, 256> ofE4m3 = decodeAll(e4m3), ofE5m2 = decodeAll(e5m2);
  return type == CUDA_R_8F_E4M3 ? ofE4m3 : ofE5m2;
}

} // namespace

float fromFp8(uint8_t bits, int32_t type) { return valuesOf(type)[bits]; }

uint8_t toFp8(double value, int32_t type) {
  const Fp8Format &format = formatOf(type);
  const std::array<float, 256> &values = valuesOf(type);
  uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value))
    return sign | format.nan;
  double size = std::fabs(value);
  auto *end = values.data() + format.largest + 1;
  auto above = uint8_t(std::lower_bound(values.data(), end, size) - values.data());
  if (above > format.largest)
    return sign | format.largest;
  if (above == 0 || values[above] == size)
    return sign | above;
  double down = size - values[above - 1u], up = values[above] - size;
  bool takeUpper = up < down || (up == down && above % 2 == 0);
  return sign | uint8_t(takeUpper ? above : above - 1);
}

float toTf32(float value) {
  uint32_t bits = castBits<uint32_t>(value);
  if ((bits & 0x7f800000) == 0x7f800000)
    return value;
  return castBits<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t(0x1fff));
}

double loadElement(const void *data, int32_t type, int64_t index) {
  switch (type) {
  case CUDA_R_64F:
    return static_cast<const double *>(data)[index];
  case CUDA_R_32F:
    return static_cast<const float *>(data)[index];
  case CUDA_R_16F:
    return fromHalf(static_cast<const uint16_t *>(data)[index]);
  case CUDA_R_16BF:
    return fromBfloat16(static_cast<const uint16_t *>(data)[index]);
  default:
    return fromFp8(static_cast<const uint8_t *>(data)[index], type);
  }
}

void storeElement(void *data, int32_t type, int64_t index, double value) {
  switch (type) {
  case CUDA_R_64F:
    static_cast<double *>(data)[index] = value;
    break;
  case CUDA_R_32F:
    static_cast<float *>(data)[index] = float(value);
    break;
  case CUDA_R_16F:
    static_cast<uint16_t *>(data)[index] = toHalf(float(value));
    break;
  case CUDA_R_16BF:
    static_cast<uint16_t *>(data)[index] = toBfloat16(float(value));
    break;
  default:
    static_cast<uint8_t *>(data)[index] = toFp8(value, type);
  }
}

} // namespace psrt::fake
