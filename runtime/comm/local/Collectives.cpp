// Implements reductions in ascending member order, and copies of parts.
#include "runtime/comm/local/Collectives.h"
#include "runtime/core/Element.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cstring>

namespace psrt {
namespace {

template <typename T> struct Native {
  using Stored = T;
  using Sum = T;
  static Sum widen(T x) { return x; }
  static T narrow(Sum x) { return x; }
};

struct Half {
  using Stored = uint16_t;
  using Sum = float;
  static float widen(uint16_t x) { return fromHalf(x); }
  static uint16_t narrow(float x) { return toHalf(x); }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Sum = float;
  static float widen(uint16_t x) { return fromBfloat16(x); }
  static uint16_t narrow(float x) { return toBfloat16(x); }
};

template <CollectiveOp::Reduction reduction, typename T> T combine(T a, T b) {
  if constexpr (reduction == CollectiveOp::Sum)
    return a + b;
  else if constexpr (reduction == CollectiveOp::Max)
    return a != a || a > b ? a : b; // NaN wins
  else
    return a != a || a < b ? a : b;
}

template <typename Type, CollectiveOp::Reduction reduction>
void reduce(const void *const *ins, int inCount, void *const *outs, int outCount, int64_t lo,
            int64_t hi) {
  using Stored = typename Type::Stored;
  constexpr int64_t block = 1024;
  typename Type::Sum sum[block];
  Stored result[block];
  for (int64_t at = lo; at < hi; at += block) {
    int64_t n = std::min(block, hi - at);
    const Stored *first = static_cast<const Stored *>(ins[0]) + at;
    for (int64_t j = 0; j < n; ++j)
      sum[j] = Type::widen(first[j]);
    for (int s = 1; s < inCount; ++s) {
      const Stored *next = static_cast<const Stored *>(ins[s]) + at;
      for (int64_t j = 0; j < n; ++j)
        sum[j] = combine<reduction>(sum[j], Type::widen(next[j]));
    }
    for (int64_t j = 0; j < n; ++j)
      result[j] = Type::narrow(sum[j]);
    for (int t = 0; t < outCount; ++t)
      std::memcpy(static_cast<Stored *>(outs[t]) + at, result, n * sizeof(Stored));
  }
}

template <typename Type>
void reduceBy(CollectiveOp::Reduction reduction, const void *const *ins, int inCount,
              void *const *outs, int outCount, int64_t lo, int64_t hi) {
  switch (reduction) {
  case CollectiveOp::Sum:
    return reduce<Type, CollectiveOp::Sum>(ins, inCount, outs, outCount, lo, hi);
  case CollectiveOp::Max:
    return reduce<Type, CollectiveOp::Max>(ins, inCount, outs, outCount, lo, hi);
  case CollectiveOp::Min:
    return reduce<Type, CollectiveOp::Min>(ins, inCount, outs, outCount, lo, hi);
  }
}

} // namespace

void reduceRange(CollectiveOp::Reduction reduction, Dtype dtype, const void *const *ins,
                 int inCount, void *const *outs, int outCount, int64_t lo, int64_t hi) {
  switch (dtype) {
  case Dtype::F32:
    return reduceBy<Native<float>>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::F64:
    return reduceBy<Native<double>>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::BF16:
    return reduceBy<Bfloat16>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::I64:
    return reduceBy<Native<int64_t>>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::I32:
    return reduceBy<Native<int32_t>>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::I16:
    return reduceBy<Native<int16_t>>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::I8:
    return reduceBy<Native<int8_t>>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::U8:
  case Dtype::Bool:
    return reduceBy<Native<uint8_t>>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::F16:
    return reduceBy<Half>(reduction, ins, inCount, outs, outCount, lo, hi);
  case Dtype::F8E4M3: // not reduced in any program
  case Dtype::F8E5M2:
    break;
  }
}

void checkCollective(const CollectiveOp &op, const char *comm) {
  if (op.kind == CollectiveOp::AllToAll && (op.shape.empty() || op.shape.size() > 16))
    PSRT_FAIL(BadInput,
              "all_to_all of a tensor with %zu dims is not supported by comm %s; expected 1 to 16",
              op.shape.size(), comm);
}

void PartCopy::run(const char *in, char *out) const {
  forEachRow(
      [&](int64_t from, int64_t to, int64_t bytes) { std::memcpy(out + to, in + from, bytes); });
}

void sliceShard(const CollectiveOp &op, int member, const char *in, char *out) {
  int64_t unit = op.inner * dtypeSize(op.dtype);
  int64_t first = std::min(op.whole, member * op.size), kept = std::min(op.size, op.whole - first);
  for (int64_t o = 0; o < op.outer; ++o) {
    std::memmove(out + o * op.size * unit, in + (o * op.whole + first) * unit, kept * unit);
    std::memset(out + (o * op.size + kept) * unit, 0, (op.size - kept) * unit);
  }
}

int permuteSource(const CollectiveOp &op, int member, int members) {
  auto it = std::find(op.targets.begin(), op.targets.end(), member);
  if (it == op.targets.end() || op.targets.size() != size_t(members))
    PSRT_FAIL(BadInput, "the targets of a permute are not a permutation of its %d members",
              members);
  return int(it - op.targets.begin());
}

} // namespace psrt
