// Implements the kernels of collectives between ranks on one GPU: reductions over the members'
// memory, copies of parts, and small writes.
#include "runtime/device/cuda/kernels/Arguments.h"
#include "runtime/device/cuda/kernels/Kernel.h"

namespace psrt::cuda {
namespace {

enum Reduction { SumUp, Max, Min };

template <int reduction, typename T> PSRT_DEVICE T combine(T a, T b) {
  if constexpr (reduction == SumUp)
    return T(a + b);
  else if constexpr (reduction == Max)
    return a != a || a > b ? a : b; // NaN propagates
  else
    return a != a || a < b ? a : b;
}

/// Converts an element to the type used for arithmetic. Integers stay unchanged.
template <typename T> PSRT_DEVICE auto load(T x) {
  if constexpr (__is_integral(T))
    return x;
  else
    return widen(x);
}
template <typename Number, typename T> PSRT_DEVICE void store(Number x, T &to) {
  if constexpr (__is_integral(T))
    to = x;
  else
    narrow(x, to);
}

PSRT_DEVICE const void *inOf(const ReduceArguments &a, int i) {
  return a.pointers ? reinterpret_cast<const void *>(a.pointers[i]) : a.ins[i];
}
PSRT_DEVICE void *outOf(const ReduceArguments &a, int i) {
  return a.pointers ? reinterpret_cast<void *>(a.pointers[a.inCount + i]) : a.outs[i];
}

/// Reduces `unit` elements per thread and step. A thread reads its elements from all inputs before
/// it writes any, so an output may be the same buffer as an input.
template <int reduction, typename T, int unit>
PSRT_DEVICE void reduceUnits(const ReduceArguments &a) {
  using Units = Pack<T, unit>;
  int64_t row = a.row / unit, inStride = a.inStride / unit, outStride = a.outStride / unit;
  for (int64_t at = gridThread(); at < a.outer * row; at += gridThreads()) {
    int64_t o = a.outer == 1 ? 0 : at / row, j = at - o * row;
    Units units = static_cast<const Units *>(inOf(a, 0))[o * inStride + j];
    decltype(load(units.elements[0])) sums[unit];
#pragma unroll
    for (int e = 0; e < unit; ++e)
      sums[e] = load(units.elements[e]);
#pragma unroll 4
    for (int i = 1; i < a.inCount; ++i) {
      Units next = static_cast<const Units *>(inOf(a, i))[o * inStride + j];
#pragma unroll
      for (int e = 0; e < unit; ++e)
        sums[e] = combine<reduction>(sums[e], load(next.elements[e]));
    }
#pragma unroll
    for (int e = 0; e < unit; ++e)
      store(sums[e], units.elements[e]);
    for (int i = 0; i < a.outCount; ++i)
      static_cast<Units *>(outOf(a, i))[o * outStride + j] = units;
  }
}

template <int reduction, typename T> PSRT_DEVICE void reduceBy(const ReduceArguments &a) {
  if (a.packed)
    reduceUnits<reduction, T, 16 / sizeof(T)>(a);
  else
    reduceUnits<reduction, T, 1>(a);
}

template <typename T> PSRT_DEVICE void reduce(const ReduceArguments &a) {
  if (a.reduction == SumUp)
    reduceBy<SumUp, T>(a);
  else if (a.reduction == Max)
    reduceBy<Max, T>(a);
  else
    reduceBy<Min, T>(a);
}

//===--- copies -----------------------------------------------------------===//

/// Copies units. `Index` has 32 bits if all indices fit, because 64-bit divisions take four times
/// as long.
template <typename Unit, typename Index> PSRT_DEVICE void copyUnits(const CopyArguments &a) {
  Index units = 1;
#pragma unroll
  for (int d = 0; d < kCopyDims; ++d)
    units *= Index(a.sizes[d]);
  Index count = units * Index(a.parts);
  for (Index at = Index(gridThread()); at < count; at += Index(gridThreads())) {
    Index part = at / units, rest = at - part * units;
    int64_t from = 0, to = int64_t(part) * a.outPart;
#pragma unroll
    for (int d = kCopyDims - 1; d >= 0; --d) {
      Index size = Index(a.sizes[d]), next = size == 1 ? rest : rest / size;
      int64_t index = size == 1 ? 0 : rest - next * size;
      from += index * a.inStrides[d];
      to += index * a.outStrides[d];
      rest = next;
    }
    const void *in = a.pointers ? reinterpret_cast<const void *>(a.pointers[part]) : a.ins[part];
    static_cast<Unit *>(a.out)[to] = static_cast<const Unit *>(in)[from];
  }
}

template <typename Unit> PSRT_DEVICE void copy(const CopyArguments &a) {
  int64_t count = a.parts;
#pragma unroll
  for (int d = 0; d < kCopyDims; ++d)
    count *= a.sizes[d];
  if (count + gridThreads() < (int64_t(1) << 31))
    copyUnits<Unit, uint32_t>(a);
  else
    copyUnits<Unit, int64_t>(a);
}

template <typename Unit> PSRT_DEVICE void slice(const SliceArguments &a) {
  auto *in = static_cast<const Unit *>(a.in);
  auto *out = static_cast<Unit *>(a.out);
  for (int64_t at = gridThread(); at < a.outer * a.size; at += gridThreads()) {
    int64_t o = a.outer == 1 ? 0 : at / a.size, j = at - o * a.size;
    out[at] = j < a.kept ? in[o * a.whole + j] : Unit{};
  }
}

PSRT_DEVICE void zero(const ZeroArguments &a) {
  auto *bytes = static_cast<uint8_t *>(a.out);
  bool isAligned = reinterpret_cast<uint64_t>(a.out) % 16 == 0;
  int64_t units = isAligned ? a.bytes / 16 : 0;
  for (int64_t i = gridThread(); i < units; i += gridThreads())
    static_cast<Bits4 *>(a.out)[i] = Bits4{};
  for (int64_t i = units * 16 + gridThread(); i < a.bytes; i += gridThreads())
    bytes[i] = 0;
}

} // namespace

PSRT_KERNEL(psrt_reduce_f32, ReduceArguments) { reduce<float>(a); }
PSRT_KERNEL(psrt_reduce_f64, ReduceArguments) { reduce<double>(a); }
PSRT_KERNEL(psrt_reduce_f16, ReduceArguments) { reduce<F16>(a); }
PSRT_KERNEL(psrt_reduce_bf16, ReduceArguments) { reduce<Bf16>(a); }
PSRT_KERNEL(psrt_reduce_i64, ReduceArguments) { reduce<int64_t>(a); }
PSRT_KERNEL(psrt_reduce_i32, ReduceArguments) { reduce<int32_t>(a); }
PSRT_KERNEL(psrt_reduce_i16, ReduceArguments) { reduce<int16_t>(a); }
PSRT_KERNEL(psrt_reduce_i8, ReduceArguments) { reduce<int8_t>(a); }
PSRT_KERNEL(psrt_reduce_u8, ReduceArguments) { reduce<uint8_t>(a); }

PSRT_KERNEL(psrt_copy_1, CopyArguments) { copy<uint8_t>(a); }
PSRT_KERNEL(psrt_copy_2, CopyArguments) { copy<uint16_t>(a); }
PSRT_KERNEL(psrt_copy_4, CopyArguments) { copy<uint32_t>(a); }
PSRT_KERNEL(psrt_copy_8, CopyArguments) { copy<uint64_t>(a); }
PSRT_KERNEL(psrt_copy_16, CopyArguments) { copy<Bits4>(a); }

PSRT_KERNEL(psrt_slice_1, SliceArguments) { slice<uint8_t>(a); }
PSRT_KERNEL(psrt_slice_2, SliceArguments) { slice<uint16_t>(a); }
PSRT_KERNEL(psrt_slice_4, SliceArguments) { slice<uint32_t>(a); }
PSRT_KERNEL(psrt_slice_8, SliceArguments) { slice<uint64_t>(a); }
PSRT_KERNEL(psrt_slice_16, SliceArguments) { slice<Bits4>(a); }

PSRT_KERNEL(psrt_zero, ZeroArguments) { zero(a); }
PSRT_KERNEL(psrt_write_index, WriteIndexArguments) {
  if (gridThread() == 0)
    *a.out = a.value;
}

} // namespace psrt::cuda
