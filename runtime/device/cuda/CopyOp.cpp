// Copies within the GPU's memory, zeros, shard indices and shard slices.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/CudaDevice.h"
#include <algorithm>

namespace psrt::cuda {
namespace {

CUdeviceptr addressOf(const Bound &bound, size_t buffer) {
  return reinterpret_cast<CUdeviceptr>(bound.buffers[buffer]);
}

void copy(const CudaRank &rank, CUdeviceptr to, CUdeviceptr from, int64_t bytes) {
  if (bytes > 0 && to != from)
    rank.getGpu().check(
        rank.getDriver().memcpyDtoDAsync(to, from, size_t(bytes), rank.getStream()->get()),
        "to copy within the GPU");
}

void zero(const CudaRank &rank, CUdeviceptr to, int64_t bytes) {
  if (bytes > 0)
    rank.getGpu().check(
        rank.getDriver().memsetD8Async(to, 0, size_t(bytes), rank.getStream()->get()),
        "to zero memory");
}

/// The driver's copies must not overlap: those that do go in pieces of their distance, in the order
/// in which nothing is overwritten before it is read.
void copyOverlapping(const CudaRank &rank, CUdeviceptr to, CUdeviceptr from, int64_t bytes) {
  int64_t distance = to > from ? int64_t(to - from) : int64_t(from - to);
  if (distance >= bytes)
    return copy(rank, to, from, bytes);
  for (int64_t done = 0; distance && done < bytes; done += distance) {
    int64_t n = std::min(distance, bytes - done), at = to > from ? bytes - done - n : done;
    copy(rank, to + CUdeviceptr(at), from + CUdeviceptr(at), n);
  }
}

void runCopy(const Bound &bound) {
  const CopyOp &op = std::get<CopyOp>(bound.instruction->op);
  copyOverlapping(CudaRank::of(bound), addressOf(bound, 1), addressOf(bound, 0), op.bytes);
}

void runZero(const Bound &bound) {
  zero(CudaRank::of(bound), addressOf(bound, 0), std::get<CopyOp>(bound.instruction->op).bytes);
}

/// The index, on the GPU since the instruction was bound.
struct PreparedIndex : Prepared {
  PreparedIndex(CudaRank &rank, int64_t index)
      : pinned(rank.getStream()->getGpu(), 8), memory(rank.getStream()->getGpu(), 8, "an index") {
    *reinterpret_cast<int64_t *>(pinned.get()) = index;
    rank.getGpu().check(
        rank.getDriver().memcpyHtoDAsync(memory.get(), pinned.get(), 8, rank.getStream()->get()),
        "to copy to the GPU");
  }
  PinnedMemory pinned;
  DeviceMemory memory;
};

void runShardIndex(const Bound &bound) {
  auto *p = static_cast<PreparedIndex *>(static_cast<Prepared *>(bound.prepared));
  copy(CudaRank::of(bound), addressOf(bound, 0), p->memory.get(), 8);
}

} // namespace

void bindCopy(const CopyOp &op, Bound &bound) { bound.run = op.zero ? runZero : runCopy; }

void bindShardIndex(CudaRank &rank, Bound &bound) {
  bound.run = runShardIndex; // the executor puts the index into the key
  bound.prepared =
      static_cast<Prepared *>(rank.keep(std::make_unique<PreparedIndex>(rank, bound.key)));
}

namespace {
struct PreparedSlice : Prepared {
  int64_t outer = 0, inRow = 0, outRow = 0, first = 0, kept = 0; ///< bytes, but for outer
};

void runSlice(const Bound &bound) {
  const auto &p = *static_cast<const PreparedSlice *>(static_cast<Prepared *>(bound.prepared));
  const CudaRank &rank = CudaRank::of(bound);
  for (int64_t o = 0; o < p.outer; ++o) {
    CUdeviceptr to = addressOf(bound, 1) + CUdeviceptr(o * p.outRow);
    copyOverlapping(rank, to, addressOf(bound, 0) + CUdeviceptr(o * p.inRow + p.first), p.kept);
    zero(rank, to + CUdeviceptr(p.kept), p.outRow - p.kept);
  }
}
} // namespace

void bindShardSlice(CudaRank &rank, const CollectiveOp &op, Bound &bound) {
  auto p = std::make_unique<PreparedSlice>();
  int64_t unit = op.inner * dtypeSize(op.dtype);
  int64_t index = rank.getProgram().mesh.shardIndex(op.axes, *bound.coordinates);
  int64_t first = std::min(op.whole, index * op.size);
  p->outer = op.outer;
  p->inRow = op.whole * unit, p->outRow = op.size * unit;
  p->first = first * unit, p->kept = std::min(op.size, op.whole - first) * unit;
  bound.run = runSlice;
  bound.prepared = static_cast<Prepared *>(rank.keep(std::move(p)));
}

} // namespace psrt::cuda
