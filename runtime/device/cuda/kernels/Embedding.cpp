// Computes embeddings and their gradient. The gradient uses no atomics: each row is summed over its
// positions in ascending order.
#include "runtime/device/cuda/kernels/Arguments.h"
#include "runtime/device/cuda/kernels/Kernel.h"

namespace psrt::cuda {
namespace {

PSRT_DEVICE int64_t readIndex(const void *indices, int32_t isWide, int64_t i) {
  return isWide ? static_cast<const int64_t *>(indices)[i]
                : static_cast<const int32_t *>(indices)[i];
}

/// Copies one row per warp, so that loads and stores are contiguous.
template <typename Unit> PSRT_DEVICE void gather(const EmbeddingArguments &a) {
  int64_t warp = gridThread() / 32, warps = gridThreads() / 32,
          first = a.firstRow ? *a.firstRow : 0;
  auto *table = static_cast<const Unit *>(a.table);
  auto *out = static_cast<Unit *>(a.out);
  for (int64_t i = warp; i < a.count; i += warps) {
    int64_t row = readIndex(a.indices, a.wideIndices, i) - first;
    bool isThere = row >= 0 && row < a.rows;
    for (int64_t j = threadIndex() % 32; j < a.width; j += 32)
      out[i * a.width + j] = isThere ? table[row * a.width + j] : Unit{};
  }
}

//===--- the gradient -----------------------------------------------------===//

constexpr int kSortThreads = 128, kTile = 512;
constexpr uint32_t kNoRow = 0xffffffff;

struct Keys {
  alignas(16) uint32_t values[kTile];
};

/// Returns the row to which the cotangent at position `i` is added. Returns kNoRow for the padding
/// index, and for rows outside of this shard. The row is the sort key of the position.
PSRT_DEVICE uint32_t keyOf(const EmbeddingGradArguments &a, int64_t first, int64_t i) {
  if (i >= a.count)
    return kNoRow;
  int64_t index = readIndex(a.indices, a.wideIndices, i), row = index - first;
  bool isThere = row >= 0 && row < a.rows && index != a.paddingIndex;
  return isThere ? uint32_t(row) : kNoRow;
}

/// Returns how many keys of a tile come before the key of position `i`. The tile contains the keys
/// of the kTile positions from `at` on.
PSRT_DEVICE uint32_t countBefore(const Keys &keys, int64_t at, uint32_t key, int64_t i) {
  uint32_t before = 0;
  if (at + kTile <= i || at > i) { // either all equal keys of the tile come before, or none
    bool equalCount = at <= i;
    uint32_t bound = equalCount && key != kNoRow ? key + 1 : key;
#pragma unroll 8
    for (int j = 0; j < kTile; ++j)
      before += keys.values[j] < bound;
  } else {
    for (int j = 0; j < kTile; ++j)
      before += keys.values[j] < key || (keys.values[j] == key && at + j < i);
  }
  return before;
}

/// Sorts positions stably. For each position, counts the keys that come before its own key.
/// Example: the keys 3 1 3 0 get the indices 2 1 3 0 in the sorted list. The work is quadratic, but
/// each step is only a compare and an add on broadcast shared memory. Sorting 16k positions takes
/// 20 us, which is less than the launches of a multi-pass sort.
PSRT_DEVICE void sortPositions(const EmbeddingGradArguments &a) {
  PSRT_SHARED(Keys, keys);
  int64_t i = gridThread(), first = a.firstRow ? *a.firstRow : 0;
  uint32_t key = keyOf(a, first, i), rank = 0;
  for (int64_t at = 0; at < a.count; at += kTile) {
    barrier();
    for (int j = threadIndex(); j < kTile; j += kSortThreads)
      keys.values[j] = keyOf(a, first, at + j);
    barrier();
    rank += countBefore(keys, at, key, i);
  }
  if (i < a.count && key != kNoRow) {
    a.positions[rank] = uint32_t(i);
    a.keys[rank] = key;
  }
}

/// Sets all keys to kNoRow before the sort. The sort omits positions without a row, so it may leave
/// the end of `keys` unwritten.
PSRT_DEVICE void clearKeys(const EmbeddingGradArguments &a) {
  for (int64_t i = gridThread(); i < a.count; i += gridThreads())
    a.keys[i] = kNoRow;
}

/// Sums `unit` elements of a row. The row's positions begin at slot `at` of the sorted list.
template <typename T, typename Out, int unit>
PSRT_DEVICE void sumUnit(const EmbeddingGradArguments &a, int64_t at, uint32_t key, int64_t j) {
  auto *grad = static_cast<const Pack<T, unit> *>(a.grad);
  Pack<Out, unit> &out = static_cast<Pack<Out, unit> *>(a.out)[(int64_t(key) * a.width + j) / unit];
  Pack<Out, unit> stored = a.accumulate ? out : Pack<Out, unit>{};
  Sum<T> sums[unit];
#pragma unroll
  for (int e = 0; e < unit; ++e)
    sums[e] = widen(stored.elements[e]);
  // The additions are in order, but the loads need not be: the next loads are issued before earlier
  // values are added.
#pragma unroll 4
  for (int64_t slot = at; slot < a.count && a.keys[slot] == key; ++slot) {
    Pack<T, unit> added = grad[(int64_t(a.positions[slot]) * a.width + j) / unit];
#pragma unroll
    for (int e = 0; e < unit; ++e)
      sums[e] += widen(added.elements[e]);
  }
#pragma unroll
  for (int e = 0; e < unit; ++e)
    narrow(sums[e], stored.elements[e]);
  out = stored;
}

/// Assigns slots of the sorted list to blocks. If the positions of a row begin at a slot, the block
/// of this slot sums the row.
template <typename T, typename Out> PSRT_DEVICE void sumRows(const EmbeddingGradArguments &a) {
  for (int64_t at = blockIndex(); at < a.count; at += gridSize()) {
    uint32_t key = a.keys[at];
    if (key == kNoRow || (at > 0 && a.keys[at - 1] == key))
      continue;
    if (a.packed)
      for (int64_t j = threadIndex() * 4; j < a.width; j += blockSize() * 4)
        sumUnit<T, Out, 4>(a, at, key, j);
    else
      for (int64_t j = threadIndex(); j < a.width; j += blockSize())
        sumUnit<T, Out, 1>(a, at, key, j);
  }
}

} // namespace

PSRT_KERNEL(psrt_embedding_1, EmbeddingArguments) { gather<uint8_t>(a); }
PSRT_KERNEL(psrt_embedding_2, EmbeddingArguments) { gather<uint16_t>(a); }
PSRT_KERNEL(psrt_embedding_4, EmbeddingArguments) { gather<uint32_t>(a); }
PSRT_KERNEL(psrt_embedding_8, EmbeddingArguments) { gather<uint64_t>(a); }
PSRT_KERNEL(psrt_embedding_16, EmbeddingArguments) { gather<Bits4>(a); }

PSRT_KERNEL(psrt_embedding_grad_clear, EmbeddingGradArguments) { clearKeys(a); }
PSRT_KERNEL(psrt_embedding_grad_sort, EmbeddingGradArguments) { sortPositions(a); }
PSRT_KERNEL(psrt_embedding_grad_f32_f32, EmbeddingGradArguments) { sumRows<float, float>(a); }
PSRT_KERNEL(psrt_embedding_grad_f64_f64, EmbeddingGradArguments) { sumRows<double, double>(a); }
PSRT_KERNEL(psrt_embedding_grad_bf16_f32, EmbeddingGradArguments) { sumRows<Bf16, float>(a); }
PSRT_KERNEL(psrt_embedding_grad_f16_f32, EmbeddingGradArguments) { sumRows<F16, float>(a); }
PSRT_KERNEL(psrt_embedding_grad_bf16_bf16, EmbeddingGradArguments) { sumRows<Bf16, Bf16>(a); }
PSRT_KERNEL(psrt_embedding_grad_f16_f16, EmbeddingGradArguments) { sumRows<F16, F16>(a); }

} // namespace psrt::cuda
