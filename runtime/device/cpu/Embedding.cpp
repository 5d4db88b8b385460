// Embedding rows and their gradient; sums do not depend on the number of threads.
#include "runtime/core/Status.h"
#include "runtime/device/cpu/CpuDevice.h"
#include <cstring>

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

/// A piece owns rows [lo, hi) of the table and adds, in ascending order, what belongs to them.
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

} // namespace

void bindEmbedding(CpuRank &, const EmbeddingOp &op, Bound &bound) {
  if (op.indexDtype != Dtype::I64 && op.indexDtype != Dtype::I32)
    PSRT_FAIL(BadInput, "embedding indices of %s are not built; use i64 or i32",
              dtypeName(op.indexDtype));
  if (!op.grad)
    bound.run = runGather;
  else if (op.dtype == Dtype::F32)
    bound.run = runScatterAdd<float>;
  else if (op.dtype == Dtype::F64)
    bound.run = runScatterAdd<double>;
  else
    PSRT_FAIL(
        BadInput,
        "embedding gradient of %s is not built for the cpu yet; compile with --precision fp32",
        dtypeName(op.dtype));
}

} // namespace psrt
