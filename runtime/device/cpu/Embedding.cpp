// Gathers embedding rows and computes the gradient of the table. The gradient does not depend on
// the number of threads.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include "runtime/device/cpu/NarrowFloat.h"
#include <cstring>
#include <utility>

namespace psrt {
namespace {

int64_t readIndex(const void *indices, Dtype dtype, int64_t i) {
  return dtype == Dtype::I64 ? static_cast<const int64_t *>(indices)[i]
                             : static_cast<const int32_t *>(indices)[i];
}

int64_t firstRow(const Bound &bound) {
  auto *first = static_cast<const int64_t *>(bound.buffers[EmbeddingOp::FirstRow]);
  return first ? *first : 0;
}

void gather(void *context, int, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const EmbeddingOp &op = std::get<EmbeddingOp>(bound.instruction->op);
  int64_t bytes = op.width * dtypeSize(op.dtype), first = firstRow(bound);
  auto *table = static_cast<const char *>(bound.buffers[EmbeddingOp::Table]);
  auto *out = static_cast<char *>(bound.buffers[EmbeddingOp::Out]);
  for (int64_t i = lo; i < hi; ++i) {
    int64_t row = readIndex(bound.buffers[EmbeddingOp::Indices], op.indexDtype, i) - first;
    if (row >= 0 && row < op.rows)
      std::memcpy(out + i * bytes, table + row * bytes, bytes);
    else
      std::memset(out + i * bytes, 0, bytes);
  }
}

template <typename T> void addRow(T *out, const T *grad, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    out[j] += grad[j];
}

/// Adds cotangents to rows [lo, hi) of the table's gradient, in the order of `indices`.
template <typename T> void scatterAdd(void *context, int, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const EmbeddingOp &op = std::get<EmbeddingOp>(bound.instruction->op);
  auto *grad = static_cast<const T *>(bound.buffers[EmbeddingOp::Table]);
  auto *out = static_cast<T *>(bound.buffers[EmbeddingOp::Out]);
  int64_t first = firstRow(bound);
  if (!bound.accumulate)
    std::memset(out + lo * op.width, 0, (hi - lo) * op.width * sizeof(T));
  for (int64_t i = 0; i < op.count; ++i) {
    int64_t index = readIndex(bound.buffers[EmbeddingOp::Indices], op.indexDtype, i),
            row = index - first;
    if (row >= lo && row < hi && index != op.paddingIndex)
      addRow(out + row * op.width, grad + i * op.width, op.width);
  }
}

void runGather(const Bound &bound) {
  const EmbeddingOp &op = std::get<EmbeddingOp>(bound.instruction->op);
  CpuRank::of(bound).pool.run(gather, const_cast<Bound *>(&bound), op.count, 64);
}

template <typename T> void runScatterAdd(const Bound &bound) {
  const EmbeddingOp &op = std::get<EmbeddingOp>(bound.instruction->op);
  CpuRank::of(bound).pool.run(scatterAdd<T>, const_cast<Bound *>(&bound), op.rows,
                              std::max<int64_t>(1, (op.rows + 15) / 16));
}

//===--- the gradient in 16 bits ------------------------------------------===//

/// A linked list per table row: the positions in `indices` that refer to the row, in ascending
/// order. With such a list, a row is summed in f32 and rounded only once. Example: indices {2, 0,
/// 2} give first[2] = 0, next[0] = 2 and next[2] = -1.
struct PreparedLists : Prepared {
  std::vector<int64_t> first; ///< by row: its first position, or -1 if no index refers to the row
  std::vector<int64_t> next;  ///< by position: the next position of the same row, or -1
};

void linkPositions(const Bound &bound, const EmbeddingOp &op, PreparedLists &lists) {
  std::fill(lists.first.begin(), lists.first.end(), -1);
  int64_t first = firstRow(bound);
  for (int64_t i = op.count; i-- > 0;) {
    int64_t index = readIndex(bound.buffers[EmbeddingOp::Indices], op.indexDtype, i);
    int64_t row = index - first;
    if (row >= 0 && row < op.rows && index != op.paddingIndex)
      lists.next[i] = std::exchange(lists.first[row], i);
  }
}

/// Computes rows [lo, hi) of the table's gradient. The scratch memory has space for a row of sums
/// and for a cotangent row widened to f32.
void sumRows(void *context, int thread, int64_t lo, int64_t hi) {
  const Bound &bound = *static_cast<const Bound *>(context);
  const EmbeddingOp &op = std::get<EmbeddingOp>(bound.instruction->op);
  const auto &lists = *static_cast<const PreparedLists *>(bound.prepared);
  float *sums = CpuRank::of(bound).scratch(thread), *added = sums + op.width;
  int64_t bytes = op.width * dtypeSize(op.outDtype);
  bool isNarrow = isNarrowFloat(op.outDtype);
  for (int64_t row = lo; row < hi; ++row) {
    void *out = elementAt(bound.buffers[EmbeddingOp::Out], op.outDtype, row * op.width);
    if (!bound.accumulate)
      std::memset(out, 0, bytes);
    if (lists.first[row] < 0)
      continue;
    isNarrow ? widen(op.outDtype, out, sums, op.width) : void(std::memcpy(sums, out, bytes));
    for (int64_t i = lists.first[row]; i >= 0; i = lists.next[i]) {
      widen(op.dtype, elementAt(bound.buffers[EmbeddingOp::Table], op.dtype, i * op.width), added,
            op.width);
      rowMath().add(sums, added, op.width);
    }
    isNarrow ? narrow(sums, op.outDtype, out, op.width) : void(std::memcpy(out, sums, bytes));
  }
}

void runSums(const Bound &bound) {
  const EmbeddingOp &op = std::get<EmbeddingOp>(bound.instruction->op);
  linkPositions(bound, op, *static_cast<PreparedLists *>(bound.prepared));
  CpuRank::of(bound).pool.run(sumRows, const_cast<Bound *>(&bound), op.rows,
                              std::max<int64_t>(1, (op.rows + 15) / 16));
}

void bindSums(CpuRank &rank, const EmbeddingOp &op, Bound &bound) {
  auto lists = std::make_unique<PreparedLists>();
  lists->first.resize(op.rows);
  lists->next.resize(op.count);
  rank.needScratch(2 * op.width * sizeof(float));
  bound.run = runSums;
  bound.prepared = rank.keep(std::move(lists));
}

} // namespace

void bindCall(CpuRank &rank, const EmbeddingOp &op, Bound &bound) {
  if (op.indexDtype != Dtype::I64 && op.indexDtype != Dtype::I32)
    PSRT_FAIL(BadInput, "embedding indices of %s are not supported; use i64 or i32",
              dtypeName(op.indexDtype));
  if (!op.grad)
    bound.run = runGather;
  else if (op.dtype == Dtype::F32)
    bound.run = runScatterAdd<float>;
  else if (op.dtype == Dtype::F64)
    bound.run = runScatterAdd<double>;
  else if (isNarrowFloat(op.dtype))
    bindSums(rank, op, bound);
  else
    PSRT_FAIL(BadInput,
              "embedding gradient of %s is not supported on the cpu; use f32, bf16, f16 or f64",
              dtypeName(op.dtype));
}

} // namespace psrt
