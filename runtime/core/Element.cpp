// Converts elements between float dtypes and finds non-finite ones.
#include "runtime/core/Element.h"
#include <algorithm>
#include <cmath>

namespace psrt {
namespace {

template <typename T> T read(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

/// Returns the index of the first element whose exponent bits are all set. Returns -1 if there are
/// none. Scans blocks without a branch per element.
template <typename Bits> int64_t findFull(const char *data, int64_t count, Bits exponent) {
  constexpr int64_t kBlock = 1024;
  auto isFull = [&](int64_t i) {
    return Bits(read<Bits>(data + i * sizeof(Bits)) & exponent) == exponent;
  };
  for (int64_t first = 0; first < count; first += kBlock) {
    int64_t end = std::min(count, first + kBlock);
    bool any = false;
    for (int64_t i = first; i < end; ++i)
      any |= isFull(i);
    for (int64_t i = first; any && i < end; ++i)
      if (isFull(i))
        return i;
  }
  return -1;
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

int64_t findNotFinite(const char *data, Dtype dtype, int64_t count) {
  switch (dtype) {
  case Dtype::F64:
    return findFull<uint64_t>(data, count, 0x7ff0000000000000);
  case Dtype::F32:
    return findFull<uint32_t>(data, count, 0x7f800000);
  case Dtype::F16:
    return findFull<uint16_t>(data, count, 0x7c00);
  case Dtype::BF16:
    return findFull<uint16_t>(data, count, 0x7f80);
  default:
    return -1;
  }
}

void convertFloats(const char *from, Dtype fromDtype, char *to, Dtype toDtype, int64_t count) {
  int64_t fromSize = dtypeSize(fromDtype), toSize = dtypeSize(toDtype);
  for (int64_t i = 0; i < count; ++i)
    storeElement(to + i * toSize, toDtype, loadFloat(from + i * fromSize, fromDtype));
}

} // namespace psrt
