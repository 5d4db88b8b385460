// Defines the macros and functions that kernel bodies use. Compiled for NVPTX, a body becomes a GPU
// kernel. Compiled for the host, a body becomes a function of a replay image
// (runtime/device/cuda/Replay.h). Neither needs the CUDA toolkit or a library.
#ifndef PSRT_DEVICE_CUDA_KERNELS_KERNEL_H
#define PSRT_DEVICE_CUDA_KERNELS_KERNEL_H

#include <cstdint>

#ifndef __NVPTX__
#include "runtime/core/Element.h"
#include "runtime/device/cuda/Replay.h"
#include <cmath>
#endif

/// Marks a function that kernels call. The function is always inlined, so that the compiler
/// recognizes pointers into shared memory.
#define PSRT_DEVICE __attribute__((always_inline)) inline

#ifdef __NVPTX__

/// Begins the body of a kernel, whose only parameter is a struct `a`, passed by value.
#define PSRT_KERNEL(NAME, ARGUMENTS)                                                               \
  extern "C" __attribute__((device_kernel)) void NAME(const ARGUMENTS a)
/// Declares shared memory of a block.
#define PSRT_SHARED(TYPE, NAME)                                                                    \
  static __attribute__((address_space(3))) TYPE NAME##Storage;                                     \
  TYPE &NAME = *(TYPE *)&NAME##Storage

#else

#define PSRT_KERNEL(NAME, ARGUMENTS)                                                               \
  static void NAME##_body(const ARGUMENTS &a);                                                     \
  extern "C" {                                                                                     \
  extern const uint32_t NAME##_parameters[];                                                       \
  const uint32_t NAME##_parameters[] = {1, sizeof(ARGUMENTS)};                                     \
  void NAME(void **parameters) { NAME##_body(*static_cast<const ARGUMENTS *>(parameters[0])); }    \
  }                                                                                                \
  static void NAME##_body(const ARGUMENTS &a)
#define PSRT_SHARED(TYPE, NAME) static thread_local TYPE NAME

extern "C" const PsrtReplayHooks *psrt_replay_hooks;

#endif

namespace psrt::cuda {

typedef float Float4 __attribute__((vector_size(16)));
typedef uint32_t Bits4 __attribute__((vector_size(16)));

//===--- thread indices and synchronization ---------------------------===//

#ifdef __NVPTX__

PSRT_DEVICE uint32_t threadIndex() { return __nvvm_read_ptx_sreg_tid_x(); }
PSRT_DEVICE uint32_t blockIndex() { return __nvvm_read_ptx_sreg_ctaid_x(); }
PSRT_DEVICE uint32_t blockSize() { return __nvvm_read_ptx_sreg_ntid_x(); }
PSRT_DEVICE uint32_t gridSize() { return __nvvm_read_ptx_sreg_nctaid_x(); }
/// Waits for all threads of the block.
PSRT_DEVICE void barrier() { __syncthreads(); }
/// Waits for all threads of the warp and makes their writes visible.
PSRT_DEVICE void warpBarrier() { __nvvm_bar_warp_sync(0xffffffff); }
/// Returns the `value` of another lane: the lane whose index is this lane's index xor `mask`. The
/// whole warp must call this function.
PSRT_DEVICE uint32_t shuffleXor(uint32_t value, uint32_t mask) {
  return __nvvm_shfl_sync_bfly_i32(0xffffffff, int(value), int(mask), 31);
}

#else

PSRT_DEVICE uint32_t threadIndex() { return psrt_replay_hooks->threadIndex(); }
PSRT_DEVICE uint32_t blockIndex() { return psrt_replay_hooks->blockIndex(); }
PSRT_DEVICE uint32_t blockSize() { return psrt_replay_hooks->blockSize(); }
PSRT_DEVICE uint32_t gridSize() { return psrt_replay_hooks->gridSize(); }
PSRT_DEVICE void barrier() { psrt_replay_hooks->barrier(); }
PSRT_DEVICE uint32_t shuffleXor(uint32_t value, uint32_t mask) {
  return psrt_replay_hooks->shuffleXor(value, mask);
}
/// A shuffle also synchronizes the warp.
PSRT_DEVICE void warpBarrier() { shuffleXor(0, 1); }

#endif

/// Return the thread's index in the grid, and the number of threads of the grid. Loops over
/// elements start at gridThread() and step by gridThreads().
PSRT_DEVICE int64_t gridThread() { return int64_t(blockIndex()) * blockSize() + threadIndex(); }
PSRT_DEVICE int64_t gridThreads() { return int64_t(gridSize()) * blockSize(); }

PSRT_DEVICE float shuffleXor(float value, uint32_t mask) {
  return __builtin_bit_cast(float, shuffleXor(__builtin_bit_cast(uint32_t, value), mask));
}

/// Return the sum or maximum over groups of `lanes` neighboring lanes (a power of two). All lanes
/// of a group get the same result.
template <int lanes> PSRT_DEVICE float sumOverLanes(float value) {
#pragma unroll
  for (uint32_t mask = lanes / 2; mask > 0; mask /= 2)
    value += shuffleXor(value, mask);
  return value;
}
template <int lanes> PSRT_DEVICE float maximumOverLanes(float value) {
#pragma unroll
  for (uint32_t mask = lanes / 2; mask > 0; mask /= 2) {
    float other = shuffleXor(value, mask);
    value = other > value ? other : value;
  }
  return value;
}

//===--- functions of f32 -------------------------------------------------===//

#ifdef __NVPTX__

/// Returns 2^x; flushes subnormal results to 0.
PSRT_DEVICE float powerOfTwo(float x) { return __nvvm_ex2_approx_ftz_f(x); }
PSRT_DEVICE float logarithmOfTwo(float x) { return __nvvm_lg2_approx_f(x); }

#else

PSRT_DEVICE float powerOfTwo(float x) {
  float power = std::exp2(x);
  return power < 0x1p-126f ? 0 : power;
}
PSRT_DEVICE float logarithmOfTwo(float x) { return std::log2(x); }

#endif

PSRT_DEVICE float infinity() { return __builtin_huge_valf(); }

/// Returns exp(x) = 2^(x log2(e)) with an error of at most 2 ulp. The exponent x log2(e) is the sum
/// of `product` and a small `rest`, which keeps results for large x accurate. If 2^product is
/// infinite, the correction by `rest` is skipped, because it could give NaN. Arguments below -104
/// are replaced by -104, where the result is 0, so `product` is never -infinity.
PSRT_DEVICE float exponential(float x) {
  constexpr float high = 0x1.715476p+0f, low = 0x1.4ae0bep-26f, ln2 = 0x1.62e430p-1f;
  x = x < -104 ? -104 : x;
  float product = x * high, rest = __builtin_fmaf(x, low, __builtin_fmaf(x, high, -product));
  float power = powerOfTwo(product);
  return power == infinity() ? power : __builtin_fmaf(power, rest * ln2, power);
}
/// Like exponential(), for results that are rounded to 16 bits afterwards.
PSRT_DEVICE float roughExponential(float x) { return powerOfTwo(x * 0x1.715476p+0f); }
PSRT_DEVICE float logarithm(float x) { return logarithmOfTwo(x) * 0x1.62e430p-1f; }

//===--- elements ---------------------------------------------------------===//

/// A bf16 number in memory.
struct Bf16 {
  uint16_t bits;
};
/// An f16 number in memory.
struct F16 {
  uint16_t bits;
};

/// widen() converts an element to the type used for arithmetic. narrow() converts back and rounds
/// to nearest even.
PSRT_DEVICE float widen(float x) { return x; }
PSRT_DEVICE double widen(double x) { return x; }
#ifdef __NVPTX__
PSRT_DEVICE float widen(Bf16 x) { return __builtin_bit_cast(float, uint32_t(x.bits) << 16); }
PSRT_DEVICE float widen(F16 x) { return float(__builtin_bit_cast(_Float16, x.bits)); }
PSRT_DEVICE void narrow(float x, Bf16 &to) { to.bits = __builtin_bit_cast(uint16_t, __bf16(x)); }
PSRT_DEVICE void narrow(float x, F16 &to) { to.bits = __builtin_bit_cast(uint16_t, _Float16(x)); }
#else
PSRT_DEVICE float widen(Bf16 x) { return fromBfloat16(x.bits); }
PSRT_DEVICE float widen(F16 x) { return fromHalf(x.bits); }
PSRT_DEVICE void narrow(float x, Bf16 &to) { to.bits = toBfloat16(x); }
PSRT_DEVICE void narrow(float x, F16 &to) { to.bits = toHalf(x); }
#endif
PSRT_DEVICE void narrow(float x, float &to) { to = x; }
PSRT_DEVICE void narrow(double x, double &to) { to = x; }

/// Returns the number that results from rounding x to T.
template <typename T> PSRT_DEVICE float rounded(float x) {
  T stored;
  narrow(x, stored);
  return widen(stored);
}

/// The type in which elements of type T are summed.
template <typename T> struct SumOf {
  using Type = float;
};
template <> struct SumOf<double> {
  using Type = double;
};
template <typename T> using Sum = typename SumOf<T>::Type;

/// Elements that are loaded and stored at once.
template <typename T, int count> struct alignas(sizeof(T) * count) Pack {
  T elements[count];
};

} // namespace psrt::cuda

#endif
