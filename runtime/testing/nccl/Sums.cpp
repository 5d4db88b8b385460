// Combines elements one by one.
#include "runtime/testing/nccl/Sums.h"
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace psrt::fake {
namespace {

struct Bf16 {
  uint16_t bits;
};

float widen(Bf16 x) {
  uint32_t bits = uint32_t(x.bits) << 16;
  float result;
  std::memcpy(&result, &bits, 4);
  return result;
}
float widen(_Float16 x) { return float(x); }
template <typename T> T widen(T x) { return x; }

void narrow(float x, Bf16 &to) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bool isNan = (bits & 0x7fffffff) > 0x7f800000;
  to.bits = uint16_t(isNan ? (bits >> 16) | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
void narrow(float x, _Float16 &to) { to = _Float16(x); }
template <typename T> void narrow(T x, T &to) { to = x; }

template <typename T>
void combineAs(nccl::ncclRedOp_t op, const std::vector<const void *> &parts, void *out,
               size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T result;
    std::memcpy(&result, static_cast<const char *>(parts.back()) + i * sizeof(T), sizeof(T));
    for (size_t p = parts.size() - 1; p-- > 0;) {
      T part;
      std::memcpy(&part, static_cast<const char *>(parts[p]) + i * sizeof(T), sizeof(T));
      auto a = widen(result), b = widen(part);
      using Wide = decltype(a);
      narrow(op == nccl::ncclSum   ? Wide(a + b)
             : op == nccl::ncclMax ? std::max(a, b)
                                   : std::min(a, b),
             result);
    }
    std::memcpy(static_cast<char *>(out) + i * sizeof(T), &result, sizeof(T));
  }
}

} // namespace

void combine(nccl::ncclRedOp_t op, nccl::ncclDataType_t type,
             const std::vector<const void *> &parts, void *out, size_t count) {
  switch (type) {
  case nccl::ncclInt8:
    return combineAs<int8_t>(op, parts, out, count);
  case nccl::ncclUint8:
    return combineAs<uint8_t>(op, parts, out, count);
  case nccl::ncclInt32:
    return combineAs<int32_t>(op, parts, out, count);
  case nccl::ncclInt64:
    return combineAs<int64_t>(op, parts, out, count);
  case nccl::ncclFloat16:
    return combineAs<_Float16>(op, parts, out, count);
  case nccl::ncclFloat32:
    return combineAs<float>(op, parts, out, count);
  case nccl::ncclFloat64:
    return combineAs<double>(op, parts, out, count);
  case nccl::ncclBfloat16:
    return combineAs<Bf16>(op, parts, out, count);
  }
}

} // namespace psrt::fake
