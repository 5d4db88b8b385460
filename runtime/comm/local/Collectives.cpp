// Reductions in ascending shard order.
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
    return a != a || a > b ? a : b; // a NaN stays
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

bool canReduce(Dtype dtype) { return dtype != Dtype::F16; }

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
    break;
  }
  PSRT_FAIL(Failed, "a reduction of %s was bound", dtypeName(dtype));
}

} // namespace psrt
