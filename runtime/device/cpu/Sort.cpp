// Sorts rows. The gradient moves the cotangents of sorted elements back to the original positions.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include <algorithm>
#include <cmath>
#include <type_traits>

namespace psrt {
namespace {

/// An element to sort, with its index in the row.
template <typename Key> struct Item {
  Key key;
  int64_t index;
};

/// Returns the number that is compared for an element.
template <typename T> auto getKey(T value) { return value; }
template <Dtype dtype> double getKey(NarrowFloat<dtype> value) { return value; }

/// Returns whether x is less than y. A NaN is larger than every number.
template <typename Key> bool isLess(Key x, Key y) {
  if constexpr (std::is_floating_point_v<Key>)
    if (std::isnan(x) || std::isnan(y))
      return !std::isnan(x);
  return x < y;
}

/// Sorts rows [lo, hi), each as an array of items in scratch memory. Equal items are ordered by
/// their indices, so the sort is stable and needs no extra memory, unlike std::stable_sort.
template <typename T> void sortRows(void *context, int thread, int64_t lo, int64_t hi) {
  using Key = decltype(getKey(std::declval<T>()));
  const Bound &bound = *static_cast<const Bound *>(context);
  const SortOp &op = std::get<SortOp>(bound.instruction->op);
  auto *items = reinterpret_cast<Item<Key> *>(CpuRank::of(bound).scratch(thread));
  auto comesBefore = [&op](const Item<Key> &a, const Item<Key> &b) {
    const Key &x = op.descending ? b.key : a.key, &y = op.descending ? a.key : b.key;
    return isLess(x, y) || (!isLess(y, x) && a.index < b.index);
  };
  for (int64_t row = lo; row < hi; ++row) {
    auto *x = static_cast<const T *>(bound.buffers[SortOp::X]) + op.first(row);
    auto *indices = static_cast<int64_t *>(bound.buffers[SortOp::Indices]) + op.first(row);
    auto *out = static_cast<T *>(bound.buffers[SortOp::Out]) + op.first(row);
    for (int64_t k = 0; k < op.size; ++k)
      items[k] = {getKey(x[k * op.inner]), k};
    std::sort(items, items + op.size, comesBefore);
    for (int64_t k = 0; k < op.size; ++k) {
      indices[k * op.inner] = items[k].index;
      out[k * op.inner] = x[items[k].index * op.inner];
    }
  }
}

/// Moves the cotangents of rows [lo, hi) back to the positions that the elements have in the
/// operand.
template <typename T> void gradRows(void *context, int, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const SortOp &op = std::get<SortOp>(bound.instruction->op);
  for (int64_t row = lo; row < hi; ++row) {
    auto *x = static_cast<const T *>(bound.buffers[SortOp::X]) + op.first(row);
    auto *indices = static_cast<const int64_t *>(bound.buffers[SortOp::Indices]) + op.first(row);
    auto *out = static_cast<T *>(bound.buffers[SortOp::Out]) + op.first(row);
    for (int64_t k = 0; k < op.size; ++k)
      out[k * op.inner] = T();
    for (int64_t k = 0; k < op.size; ++k)
      if (int64_t to = indices[k * op.inner]; to >= 0 && to < op.size)
        out[to * op.inner] = x[k * op.inner];
  }
}

template <void piece(void *, int, int64_t, int64_t)> void run(const Bound &bound) {
  const SortOp &op = std::get<SortOp>(bound.instruction->op);
  int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(1, op.size));
  CpuRank::of(bound).pool.run(piece, const_cast<Bound *>(&bound), op.rows(), grain);
}

template <typename T> void bindSort(CpuRank &rank, const SortOp &op, Bound &bound) {
  if (op.elements() > 0)
    rank.needScratch(size_t(op.size) * sizeof(Item<decltype(getKey(std::declval<T>()))>));
  bound.run = run<sortRows<T>>;
}

/// Binds the gradient. It moves elements of any dtype as unsigned integers of the same size.
void bindGrad(const SortOp &op, Bound &bound) {
  int64_t bytes = dtypeSize(op.dtype);
  bound.run = bytes == 2   ? run<gradRows<uint16_t>>
              : bytes == 4 ? run<gradRows<uint32_t>>
                           : run<gradRows<uint64_t>>;
}

} // namespace

void bindCall(CpuRank &rank, const SortOp &op, Bound &bound) {
  if (op.grad)
    return bindGrad(op, bound);
  switch (op.dtype) {
  case Dtype::F32:
    return bindSort<float>(rank, op, bound);
  case Dtype::F64:
    return bindSort<double>(rank, op, bound);
  case Dtype::F16:
    return bindSort<NarrowFloat<Dtype::F16>>(rank, op, bound);
  case Dtype::BF16:
    return bindSort<NarrowFloat<Dtype::BF16>>(rank, op, bound);
  case Dtype::I64:
    return bindSort<int64_t>(rank, op, bound);
  case Dtype::I32:
    return bindSort<int32_t>(rank, op, bound);
  case Dtype::I16:
    return bindSort<int16_t>(rank, op, bound);
  case Dtype::I8:
    return bindSort<int8_t>(rank, op, bound);
  case Dtype::U8:
  case Dtype::Bool:
    return bindSort<uint8_t>(rank, op, bound);
  default:
    PSRT_FAIL(BadInput, "sort of %s is not supported on the cpu", dtypeName(op.dtype));
  }
}

} // namespace psrt
