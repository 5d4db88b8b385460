// Multiplies 16-bit tiles with tensor cores (mma.sync m16n8k16, sm_80 and later). A warp multiplies
// 16 x 16 by 16 x 8 elements at once and accumulates in f32. PTX defines which lane holds which
// elements: in each 8 x 8 quarter, lane l holds the elements of row l / 4 in columns 2 (l % 4) and
// 2 (l % 4) + 1. The replay image computes the same results from the same registers.
#ifndef PSRT_DEVICE_CUDA_KERNELS_TENSORCORE_H
#define PSRT_DEVICE_CUDA_KERNELS_TENSORCORE_H

#include "runtime/device/cuda/kernels/Kernel.h"

namespace psrt::cuda {

/// A lane's part of 16 x 16 elements: two elements of each 8 x 8 quarter.
typedef uint32_t Fragment[4];
/// A lane's part of 16 x 8 sums: two elements of row l / 4 and two of row l / 4 + 8.
typedef float Sums[4];

PSRT_DEVICE int lane() { return threadIndex() % 32; }
PSRT_DEVICE int warp() { return threadIndex() / 32; }
PSRT_DEVICE int laneRow() { return lane() / 4; }
PSRT_DEVICE int laneColumn() { return lane() % 4 * 2; }

#ifdef __NVPTX__

PSRT_DEVICE uint32_t sharedAddress(const void *pointer) {
  return uint32_t(uint64_t((const __attribute__((address_space(3))) void *)pointer));
}

/// Loads four 8 x 8 matrices. `offset`(l) is the offset of row l % 8 of matrix l / 8.
template <typename Offset>
PSRT_DEVICE void loadMatrices(Fragment &to, const uint16_t *tile, Offset offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(sharedAddress(tile + offset(lane())))
               : "memory");
}
template <typename Offset>
PSRT_DEVICE void loadTransposedMatrices(Fragment &to, const uint16_t *tile, Offset offset) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(sharedAddress(tile + offset(lane())))
               : "memory");
}

template <typename T>
PSRT_DEVICE void multiplyAdd(Sums &sums, const Fragment &left, uint32_t right0, uint32_t right1) {
  if constexpr (__is_same(T, Bf16))
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0),
                   "r"(right1));
  else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0),
                   "r"(right1));
}

/// Starts an asynchronous copy of 16 bytes to shared memory. Without `isThere`, writes zeros
/// instead. finishCopies() waits for the copies of the thread.
PSRT_DEVICE void beginCopy(void *to, const void *from, bool isThere) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(sharedAddress(to)),
               "l"((const __attribute__((address_space(1))) void *)from), "r"(isThere ? 16 : 0)
               : "memory");
}
PSRT_DEVICE void finishCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#else

PSRT_DEVICE uint32_t pairOf(uint16_t first, uint16_t second) {
  return first | uint32_t(second) << 16;
}
template <typename Offset>
PSRT_DEVICE void loadMatrices(Fragment &to, const uint16_t *tile, Offset offset) {
  for (int i = 0; i < 4; ++i) {
    const uint16_t *row = tile + offset(8 * i + laneRow());
    to[i] = pairOf(row[laneColumn()], row[laneColumn() + 1]);
  }
}
template <typename Offset>
PSRT_DEVICE void loadTransposedMatrices(Fragment &to, const uint16_t *tile, Offset offset) {
  for (int i = 0; i < 4; ++i)
    to[i] = pairOf(tile[offset(8 * i + laneColumn()) + laneRow()],
                   tile[offset(8 * i + laneColumn() + 1) + laneRow()]);
}

/// The operands of a warp's matmul, to which each lane writes its elements. A warp alternates
/// between two such buffers, so that one barrier per matmul suffices: when a lane overwrites a
/// buffer, all lanes have passed the barrier of the matmul in between, so none reads the buffer
/// anymore.
struct Operands {
  float left[16][16], right[16][8];
};
template <typename T> PSRT_DEVICE void putPair(uint32_t pair, float *first, float *second) {
  *first = widen(T{uint16_t(pair)});
  *second = widen(T{uint16_t(pair >> 16)});
}

template <typename T>
inline void multiplyAdd(Sums &sums, const Fragment &left, uint32_t right0, uint32_t right1) {
  static thread_local Operands operands[32][2];
  static thread_local uint8_t turns[1024];
  Operands &o = operands[warp()][turns[threadIndex()] ^= 1];
  int row = laneRow(), column = laneColumn();
  for (int e = 0; e < 4; ++e) {
    float *to = &o.left[row + e % 2 * 8][column + e / 2 * 8];
    putPair<T>(left[e], to, to + 1);
  }
  putPair<T>(right0, &o.right[column][row], &o.right[column + 1][row]);
  putPair<T>(right1, &o.right[column + 8][row], &o.right[column + 9][row]);
  warpBarrier();
  for (int e = 0; e < 4; ++e)
    for (int k = 0; k < 16; ++k)
      sums[e] += o.left[row + e / 2 * 8][k] * o.right[k][column + e % 2];
}

PSRT_DEVICE void beginCopy(void *to, const void *from, bool isThere) {
  isThere ? std::memcpy(to, from, 16) : std::memset(to, 0, 16);
}
PSRT_DEVICE void finishCopies() {}

#endif

/// Loads the left operand from 16 x 16 elements whose rows are `stride` elements apart.
PSRT_DEVICE void loadLeft(Fragment &to, const uint16_t *tile, int stride) {
  loadMatrices(to, tile, [=](int lane) { return lane % 16 * stride + lane / 16 * 8; });
}
/// Loads two right operands (columns 0 to 7 and 8 to 15) from a tile that stores their transpose.
PSRT_DEVICE void loadRightFromRows(Fragment &to, const uint16_t *tile, int stride) {
  loadMatrices(to, tile,
               [=](int lane) { return (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8; });
}
/// Loads two right operands from a tile that stores them without transposition.
PSRT_DEVICE void loadRight(Fragment &to, const uint16_t *tile, int stride) {
  loadTransposedMatrices(to, tile, [=](int lane) { return lane % 16 * stride + lane / 16 * 8; });
}

/// Rounds two sums to a pair of elements.
template <typename T> PSRT_DEVICE uint32_t pairOf(float first, float second) {
#ifdef __NVPTX__
  if constexpr (__is_same(T, Bf16))
    return __builtin_bit_cast(uint32_t, __nvvm_ff2bf16x2_rn(second, first));
  else
    return __builtin_bit_cast(uint32_t, __nvvm_ff2f16x2_rn(second, first));
#else
  T low, high;
  narrow(first, low);
  narrow(second, high);
  return pairOf(low.bits, high.bits);
#endif
}

/// Converts 16 x 16 sums to a left operand.
template <typename T>
PSRT_DEVICE void toLeft(Fragment &to, const Sums &columns0, const Sums &columns8) {
  to[0] = pairOf<T>(columns0[0], columns0[1]);
  to[1] = pairOf<T>(columns0[2], columns0[3]);
  to[2] = pairOf<T>(columns8[0], columns8[1]);
  to[3] = pairOf<T>(columns8[2], columns8[3]);
}

} // namespace psrt::cuda

#endif
