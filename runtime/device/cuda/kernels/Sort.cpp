// Sorts rows with a merge sort of indices, one launch per pass. The new position of an element is
// the number of elements before it, so the sort needs no shared memory and no atomics.
#include "runtime/device/cuda/kernels/Kernel.h"
#include "runtime/device/cuda/kernels/SortArguments.h"

namespace psrt::cuda {
PSRT_DEVICE int64_t widen(int64_t x) { return x; }
PSRT_DEVICE int32_t widen(int32_t x) { return x; }
PSRT_DEVICE int32_t widen(int16_t x) { return x; }
PSRT_DEVICE int32_t widen(int8_t x) { return x; }
PSRT_DEVICE int32_t widen(uint8_t x) { return x; }

namespace {

/// Returns whether x is less than y. A NaN is larger than every number. (`y != y` is true for NaN.)
template <typename Key> PSRT_DEVICE bool isLess(Key x, Key y) {
  return x < y || (y != y && x == x);
}

/// One row of a sort. Element k of the row is `k * inner` elements after the row's first element.
template <typename T> struct Row {
  const SortArguments &a;
  int64_t first; ///< index of the first element
  PSRT_DEVICE int64_t at(int64_t k) const { return first + k * a.inner; }
  PSRT_DEVICE auto key(int64_t k) const { return widen(static_cast<const T *>(a.x)[at(k)]); }
  /// Returns whether element j must precede element k because of their values.
  PSRT_DEVICE bool precedes(int64_t j, int64_t k) const {
    return a.descending ? isLess(key(k), key(j)) : isLess(key(j), key(k));
  }
  /// Writes element k to index `position` of the sorted run.
  PSRT_DEVICE void set(int64_t position, int64_t k) const {
    a.indices[at(position)] = k;
    if (a.out)
      static_cast<T *>(a.out)[at(position)] = static_cast<const T *>(a.x)[at(k)];
  }
};

/// Returns the row of an element, and sets `position` to the element's position in the row.
template <typename T>
PSRT_DEVICE Row<T> rowOf(const SortArguments &a, int64_t element, int64_t &position) {
  position = element / a.inner % a.size;
  return {a, element - position * a.inner};
}

/// Sorts each run of kSortTile elements. Example: 3 1 3 0 get the positions 2 1 3 0.
template <typename T> PSRT_DEVICE void sortTiles(const SortArguments &a) {
  for (int64_t element = gridThread(); element < a.elements; element += gridThreads()) {
    int64_t k;
    Row<T> row = rowOf<T>(a, element, k);
    int64_t begin = k / kSortTile * kSortTile, position = begin;
    int64_t end = begin + kSortTile < a.size ? begin + kSortTile : a.size;
    for (int64_t j = begin; j < end; ++j)
      position += j < k ? !row.precedes(k, j) : row.precedes(j, k);
    row.set(position, k);
  }
}

/// Merges pairs of runs. The new position of an element is its position in its own run, plus the
/// number of elements of the other run that precede it. A binary search finds this number. Equal
/// elements of the first run precede those of the second run.
template <typename T> PSRT_DEVICE void merge(const SortArguments &a) {
  for (int64_t element = gridThread(); element < a.elements; element += gridThreads()) {
    int64_t position;
    Row<T> row = rowOf<T>(a, element, position);
    int64_t k = a.runs[element], run = position / a.width, start = (run ^ 1) * a.width;
    bool isSecond = run % 2;
    int64_t low = start < a.size ? start : a.size;
    int64_t high = start + a.width < a.size ? start + a.width : a.size, begin = low;
    while (low < high) {
      int64_t middle = low + (high - low) / 2, other = a.runs[row.at(middle)];
      bool isBefore = isSecond ? !row.precedes(k, other) : row.precedes(other, k);
      isBefore ? low = middle + 1 : high = middle;
    }
    row.set(position - (isSecond ? a.width : 0) + low - begin, k);
  }
}

template <typename T> PSRT_DEVICE void moveBack(const SortGradArguments &a) {
  for (int64_t element = gridThread(); element < a.elements; element += gridThreads()) {
    int64_t position = element / a.inner % a.size, to = a.indices[element];
    if (to >= 0 && to < a.size)
      static_cast<T *>(a.out)[element + (to - position) * a.inner] =
          static_cast<const T *>(a.x)[element];
  }
}

} // namespace

#define PSRT_SORT(NAME, TYPE)                                                                      \
  PSRT_KERNEL(psrt_sort_tiles_##NAME, SortArguments) { sortTiles<TYPE>(a); }                       \
  PSRT_KERNEL(psrt_sort_merge_##NAME, SortArguments) { merge<TYPE>(a); }
PSRT_SORT(f32, float)
PSRT_SORT(f64, double)
PSRT_SORT(bf16, Bf16)
PSRT_SORT(f16, F16)
PSRT_SORT(i64, int64_t)
PSRT_SORT(i32, int32_t)
PSRT_SORT(i16, int16_t)
PSRT_SORT(i8, int8_t)
PSRT_SORT(u8, uint8_t)
PSRT_SORT(bool, uint8_t)

PSRT_KERNEL(psrt_sort_grad_2, SortGradArguments) { moveBack<uint16_t>(a); }
PSRT_KERNEL(psrt_sort_grad_4, SortGradArguments) { moveBack<uint32_t>(a); }
PSRT_KERNEL(psrt_sort_grad_8, SortGradArguments) { moveBack<uint64_t>(a); }

} // namespace psrt::cuda
