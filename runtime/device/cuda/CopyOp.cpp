// Runs copies within GPU memory, and fills with zeros.
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

/// Copies between ranges that may overlap. A single copy of the driver must not overlap, so the
/// data is copied in pieces that are as long as the distance between the ranges. No piece is
/// overwritten before it is read. Example: to move 10 bytes to addresses that are higher by 4,
/// copies bytes 6-9, then 2-5, then 0-1.
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

} // namespace

void bindCopy(const CopyOp &op, Bound &bound) { bound.run = op.zero ? runZero : runCopy; }

} // namespace psrt::cuda
