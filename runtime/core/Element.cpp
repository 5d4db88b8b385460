// Bits of 16-bit floats, and conversion between float dtypes.
#include "runtime/core/Element.h"
#include <cmath>

namespace psrt {
namespace {

template <typename T> T read(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

} // namespace

bool isNarrowFloat(Dtype dtype) { return dtype == Dtype::F16 || dtype == Dtype::BF16; }

bool isFloat8(Dtype dtype) { return dtype == Dtype::F8E4M3 || dtype == Dtype::F8E5M2; }

bool isFloat(Dtype dtype) {
  return dtype == Dtype::F32 || dtype == Dtype::F64 || isNarrowFloat(dtype);
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
  auto store = [&](auto stored) { std::memcpy(at, &stored, sizeof(stored)); };
  switch (dtype) {
  case Dtype::F32:
    return store(float(value));
  case Dtype::F64:
    return store(value);
  case Dtype::F16:
    return store(toHalf(float(value)));
  case Dtype::BF16:
    return store(toBfloat16(float(value)));
  default:
    break;
  }
  int64_t integer = std::isfinite(value) ? int64_t(value) : 0;
  std::memcpy(at, &integer, dtypeSize(dtype));
}

void convertFloats(const char *from, Dtype fromDtype, char *to, Dtype toDtype, int64_t count) {
  int64_t fromSize = dtypeSize(fromDtype), toSize = dtypeSize(toDtype);
  for (int64_t i = 0; i < count; ++i)
    storeElement(to + i * toSize, toDtype, loadFloat(from + i * fromSize, fromDtype));
}

} // namespace psrt
