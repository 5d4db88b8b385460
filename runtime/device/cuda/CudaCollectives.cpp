// Runs collectives between CUDA ranks of one process, with copies and kernels of the runtime.
#include "runtime/comm/local/Collectives.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/AsyncPart.h"
#include "runtime/device/cuda/kernels/Arguments.h"
#include <algorithm>

namespace psrt::cuda {

static constexpr int kMaxMembers = kMaxParts;

void checkReduction(const CollectiveOp &op, int members) {
  if (members > kMaxMembers)
    PSRT_FAIL(BadInput,
              "%s over %d ranks that share one GPU is not supported; use at most %d ranks",
              op.name(), members, kMaxMembers);
}

namespace {

const Member &memberOf(const Bound &bound) { return *static_cast<const Member *>(bound.prepared); }

CUdeviceptr addressOf(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
CUdeviceptr addressOf(const Bound &bound, size_t buffer) {
  return addressOf(bound.buffers[buffer]);
}

bool overlap(CUdeviceptr a, int64_t aBytes, CUdeviceptr b, int64_t bBytes) {
  return a < b + CUdeviceptr(bBytes) && b < a + CUdeviceptr(aBytes);
}

/// Returns the address from which other ranks read the operand. If the result overlaps the operand,
/// copies the operand to scratch first, and returns the address of the copy.
CUdeviceptr stageOperand(const Bound &bound, const Member &m, int64_t outBytes) {
  CUdeviceptr in = addressOf(bound, 0);
  if (m.count == 1 || !overlap(in, m.bytes, addressOf(bound, 1), outBytes))
    return in;
  m.copy(m.comm->getScratch(), in, m.bytes);
  return m.comm->getScratch();
}

/// Runs an all_reduce or a permute over one rank: copies each operand to its result.
void copyOperands(const Bound &bound) {
  const Member &m = memberOf(bound);
  size_t pairs = m.op.counts.size();
  for (size_t pair = 0; pair < pairs; ++pair)
    m.copy(addressOf(bound, pairs + pair), addressOf(bound, pair),
           m.op.counts[pair] * dtypeSize(m.op.dtype));
}

/// Runs any other collective over one rank: copies the operand to the result.
void copyOperand(const Bound &bound) {
  const Member &m = memberOf(bound);
  m.copy(addressOf(bound, 1), addressOf(bound, 0), m.bytes);
}

/// Returns the accesses of a launch for the fake driver: `in` bytes of each input and `out` bytes
/// of each output.
std::vector<Access> accessesOf(const Member &m, const Pointers &ins, int64_t in,
                               const std::vector<void *> &outs, int64_t out) {
  std::vector<Access> result;
  if (!m.comm->getDevice().getDriver().isFake())
    return result;
  for (const void *each : ins)
    result.push_back({addressOf(each), addressOf(each) + CUdeviceptr(in), 0});
  for (const void *each : outs)
    result.push_back({addressOf(each), addressOf(each) + CUdeviceptr(out), 1});
  return result;
}

void launch(const Member &m, const Launches &launches, const std::vector<Access> &accesses) {
  m.comm->getDevice().getLibrary().launch(*m.stream, launches, accesses);
}

/// Returns buffer `i` of every member, starting at byte `offset`.
std::vector<void *> buffersOf(const Member &m, size_t i, int64_t offset = 0) {
  std::vector<void *> result;
  for (int member = 0; member < m.count; ++member)
    result.push_back(reinterpret_cast<void *>(m.of(member, i) + CUdeviceptr(offset)));
  return result;
}
Pointers insOf(const Member &m) {
  std::vector<void *> all = buffersOf(m, 0);
  return {all.begin(), all.end()};
}

/// Runs an all_reduce. Every member reduces one part of all operands, and writes the reduced part
/// to all results. No part is read after it is written, so results may overwrite operands.
void runAllReduce(const Bound &bound) {
  const Member &m = memberOf(bound);
  m.publish(bound.buffers);
  for (size_t pair = 0, pairs = m.op.counts.size(); pair < pairs; ++pair) {
    int64_t count = m.op.counts[pair], part = ((count + m.count - 1) / m.count + 15) / 16 * 16;
    int64_t lo = std::min(count, m.index * part), n = std::min(count - lo, part);
    if (n == 0)
      continue;
    int64_t size = dtypeSize(m.op.dtype);
    std::vector<void *> ins = buffersOf(m, pair, lo * size),
                        outs = buffersOf(m, pairs + pair, lo * size);
    Pointers from(ins.begin(), ins.end());
    launch(m, launchReduce(m.op.reduction, m.op.dtype, from, outs, n),
           accessesOf(m, from, n * size, outs, n * size));
  }
  m.leave();
}

void runReduceScatter(const Bound &bound) {
  const Member &m = memberOf(bound);
  int64_t bytes = m.op.outer * m.op.size * m.op.inner * dtypeSize(m.op.dtype);
  bool isStaged = overlap(addressOf(bound, 0), m.bytes, addressOf(bound, 1), bytes);
  void *out = isStaged ? reinterpret_cast<void *>(m.comm->getScratch()) : bound.buffers[1];
  m.publish(bound.buffers);
  Pointers ins = insOf(m);
  // This member reads only its own part of each input, but reports the whole input to the fake
  // driver.
  launch(m, launchReduceScatter(m.op, ins, m.index, out),
         accessesOf(m, ins, m.bytes, {out}, bytes));
  m.leave();
  if (isStaged)
    m.copy(addressOf(bound, 1), addressOf(out), bytes);
}

void runAllGather(const Bound &bound) {
  const Member &m = memberOf(bound);
  void *published[] = {reinterpret_cast<void *>(stageOperand(bound, m, m.bytes * m.count))};
  m.publish(published);
  Pointers ins = insOf(m);
  launch(m, launchAllGather(m.op, ins, bound.buffers[1]),
         accessesOf(m, ins, m.bytes, {bound.buffers[1]}, m.bytes * m.count));
  m.leave();
}

void runAllToAll(const Bound &bound) {
  const Member &m = memberOf(bound);
  void *published[] = {reinterpret_cast<void *>(stageOperand(bound, m, m.bytes))};
  m.publish(published);
  Pointers ins = insOf(m);
  launch(m, launchAllToAll(m.op, ins, m.index, bound.buffers[1]),
         accessesOf(m, ins, m.bytes, {bound.buffers[1]}, m.bytes));
  m.leave();
}

void runPermute(const Bound &bound) {
  const Member &m = memberOf(bound);
  void *published[] = {reinterpret_cast<void *>(stageOperand(bound, m, m.bytes))};
  m.publish(published);
  m.copy(addressOf(bound, 1), m.of(m.source, 0), m.bytes);
  m.leave();
}

} // namespace

void (*findRunner(const CollectiveOp &op, int members))(const Bound &) {
  switch (op.kind) {
  case CollectiveOp::AllReduce:
    checkReduction(op, members);
    return members == 1 ? copyOperands : runAllReduce;
  case CollectiveOp::ReduceScatter:
    checkReduction(op, members);
    return members == 1 ? copyOperand : runReduceScatter;
  case CollectiveOp::AllGather:
    return members == 1 ? copyOperand : runAllGather;
  case CollectiveOp::AllToAll:
    return members == 1 ? copyOperand : runAllToAll;
  case CollectiveOp::Permute:
    return members == 1 ? copyOperands : runPermute;
  case CollectiveOp::ShardSlice: // run by the device
    break;
  }
  PSRT_FAIL(BadInput, "%s is not a collective", op.name());
}

//===--- collectives between pipeline coordinates ---------------------------------------===//

namespace {

const AsyncPart &partOf(const Arrival &arrival) {
  return *static_cast<const AsyncPart *>(arrival.bound->prepared);
}

/// Enqueues work on the side stream of rank `where`. The work runs after all members have started
/// the collective. At its WaitOp, each member waits for the work.
template <typename Enqueue>
void enqueueForAll(const std::vector<Arrival *> &parts, CudaRankComm &where, Enqueue &&enqueue) {
  const Stream &stream = where.getSideStream();
  stream.getGpu()->enter();
  for (const Arrival *part : parts)
    partOf(*part).ready.makeWait(stream);
  enqueue(stream);
  for (const Arrival *part : parts)
    partOf(*part).done.record(stream);
}

} // namespace

void deliver(const std::vector<Arrival *> &parts) {
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

void reduceAcross(const std::vector<Arrival *> &parts) {
  checkReductions(parts);
  const auto &op = std::get<CollectiveOp>(parts[0]->bound->instruction->op);
  CudaRankComm &where = partOf(*parts[0]).comm;
  enqueueForAll(parts, where, [&](const Stream &stream) {
    for (size_t pair = 0, pairs = op.counts.size(); pair < pairs; ++pair) {
      std::vector<Access> accesses;
      Pointers ins;
      std::vector<void *> outs;
      auto bytes = CUdeviceptr(op.counts[pair] * dtypeSize(op.dtype));
      for (const Arrival *part : parts) {
        ins.push_back(part->bound->buffers[pair]);
        outs.push_back(part->bound->buffers[pairs + pair]);
        accesses.push_back({addressOf(ins.back()), addressOf(ins.back()) + bytes, 0});
        accesses.push_back({addressOf(outs.back()), addressOf(outs.back()) + bytes, 1});
      }
      where.getDevice().getLibrary().launch(
          stream, launchReduce(op.reduction, op.dtype, ins, outs, op.counts[pair]), accesses);
    }
  });
}

} // namespace psrt::cuda
