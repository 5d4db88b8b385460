// The collectives: copies between ranks' memory, and sums by a kernel of the runtime.
#include "runtime/comm/local/Collectives.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/StartedPart.h"

namespace psrt::cuda {

void checkReduction(const CollectiveOp &op, int members) {
  if (members > 1)
    PSRT_FAIL(BadInput, "%s over %d ranks is not built for cuda yet", op.name(), members);
}

namespace {

const Member &memberOf(const Bound &bound) { return *static_cast<const Member *>(bound.prepared); }

CUdeviceptr addressOf(const Bound &bound, size_t buffer) {
  return reinterpret_cast<CUdeviceptr>(bound.buffers[buffer]);
}

bool overlap(CUdeviceptr a, int64_t aBytes, CUdeviceptr b, int64_t bBytes) {
  return a < b + CUdeviceptr(bBytes) && b < a + CUdeviceptr(aBytes);
}

/// The operand, moved to scratch where the result would overwrite what others still read.
CUdeviceptr stageOperand(const Bound &bound, const Member &m, int64_t outBytes) {
  CUdeviceptr in = addressOf(bound, 0);
  if (m.count == 1 || !overlap(in, m.bytes, addressOf(bound, 1), outBytes))
    return in;
  m.copy(m.comm->getScratch(), in, m.bytes);
  return m.comm->getScratch();
}

/// Over one rank, where an all_reduce copies what it is given.
void runAlone(const Bound &bound) {
  const Member &m = memberOf(bound);
  size_t pairs = m.op.counts.size();
  for (size_t pair = 0; pair < pairs; ++pair)
    m.copy(addressOf(bound, pairs + pair), addressOf(bound, pair),
           m.op.counts[pair] * dtypeSize(m.op.dtype));
}

void runAllAlone(const Bound &bound) {
  const Member &m = memberOf(bound);
  m.copy(addressOf(bound, 1), addressOf(bound, 0), m.bytes);
}

void runAllGather(const Bound &bound) {
  const Member &m = memberOf(bound);
  int64_t row = m.op.size * m.op.inner * dtypeSize(m.op.dtype);
  void *published[] = {
      reinterpret_cast<void *>(stageOperand(bound, m, m.op.outer * row * m.count))};
  m.meet(published);
  for (int64_t o = 0; o < m.op.outer; ++o)
    for (int i = 0; i < m.count; ++i)
      m.copy(addressOf(bound, 1) + CUdeviceptr((o * m.count + i) * row),
             m.of(i, 0) + CUdeviceptr(o * row), row);
  m.leave();
}

void runAllToAll(const Bound &bound) {
  const Member &m = memberOf(bound);
  void *published[] = {reinterpret_cast<void *>(stageOperand(bound, m, m.bytes))};
  m.meet(published);
  for (int i = 0; i < m.count; ++i) {
    PartCopy part{m.op.shape, dtypeSize(m.op.dtype), m.op.split, m.count,
                  m.index,    m.op.concat,           m.count,    i};
    part.forEachRow([&](int64_t from, int64_t to, int64_t bytes) {
      m.copy(addressOf(bound, 1) + CUdeviceptr(to), m.of(i, 0) + CUdeviceptr(from), bytes);
    });
  }
  m.leave();
}

void runPermute(const Bound &bound) {
  const Member &m = memberOf(bound);
  void *published[] = {reinterpret_cast<void *>(stageOperand(bound, m, m.bytes))};
  m.meet(published);
  m.copy(addressOf(bound, 1), m.of(m.source, 0), m.bytes);
  m.leave();
}

} // namespace

void (*findRunner(const CollectiveOp &op, int members))(const Bound &) {
  switch (op.kind) {
  case CollectiveOp::AllReduce:
    checkReduction(op, members);
    return runAlone;
  case CollectiveOp::ReduceScatter:
    checkReduction(op, members);
    return runAllAlone;
  case CollectiveOp::AllGather:
    return runAllGather;
  case CollectiveOp::AllToAll:
    return runAllToAll;
  case CollectiveOp::Permute:
    return runPermute;
  case CollectiveOp::ShardSlice: // the device's
    break;
  }
  PSRT_FAIL(BadInput, "%s is no collective", op.name());
}

//===--- among pipeline coordinates ---------------------------------------===//

namespace {

const StartedPart &partOf(const Attendance &attendance) {
  return *static_cast<const StartedPart *>(attendance.bound->prepared);
}

/// Enqueues into a side stream, after all members' starts; what they wait for comes after it.
template <typename Enqueue>
void enqueueForAll(const std::vector<Attendance *> &parts, CudaRankComm &where, Enqueue &&enqueue) {
  const Stream &stream = where.getSideStream();
  stream.getGpu()->enter();
  for (const Attendance *part : parts)
    partOf(*part).ready.holdUp(stream);
  enqueue(stream);
  for (const Attendance *part : parts)
    partOf(*part).done.record(stream);
}

} // namespace

void deliver(const std::vector<Attendance *> &parts) {
  checkMessage(*parts[0]->bound, *parts[1]->bound);
  const Bound &from = *parts[0]->bound, &to = *parts[1]->bound;
  CudaRankComm &receiver = partOf(*parts[1]).comm;
  enqueueForAll(parts, receiver, [&](const Stream &stream) {
    const Gpu &gpu = *stream.getGpu();
    gpu.check(gpu.getDriver().memcpyDtoDAsync(
                  addressOf(to, 0), addressOf(from, 0),
                  size_t(std::get<MessageOp>(from.instruction->op).bytes), stream.get()),
              "to copy between ranks");
  });
}

void reduceAcross(const std::vector<Attendance *> &) {
  PSRT_FAIL(BadInput, "reductions across stages are not built for cuda yet");
}

} // namespace psrt::cuda
