// Synchronizes the host threads of CUDA ranks in one process, and orders their streams.
#include "runtime/device/cuda/CudaCommunication.h"
#include "runtime/comm/local/Collectives.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/AsyncPart.h"

namespace psrt::cuda {

void RankTable::set(int rank, CudaRank *device) {
  std::lock_guard<std::mutex> lock(mutex);
  ranks[rank] = device;
}

CudaRank &RankTable::get(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  return *ranks.at(rank);
}

//===--- collectives of a group -------------------------------------------===//

static const Ends &endsOf(const Group &group, int member) {
  return *static_cast<const Ends *>(group.ofBackend[member]);
}

void Member::publish(void *const *buffers) const {
  group->slots[index] = buffers;
  if (count == 1)
    return;
  ends->ready.record(*stream);
  group->barrier.arrive();
  for (int i = 0; i < count; ++i) {
    const Ends &other = endsOf(*group, i);
    if (i != index)
      other.ready.makeWait(*stream);
  }
}

void Member::leave() const {
  if (count == 1)
    return;
  ends->done.record(*stream);
  group->barrier.arrive();
  for (int i = 0; i < count; ++i)
    if (i != index)
      endsOf(*group, i).done.makeWait(*stream);
}

void Member::copy(CUdeviceptr to, CUdeviceptr from, int64_t bytes) const {
  const CudaRank &device = comm->getDevice();
  if (bytes > 0 && to != from)
    device.getGpu().check(
        device.getDriver().memcpyDtoDAsync(to, from, size_t(bytes), stream->get()),
        "to copy between ranks");
}

//===--- one rank ---------------------------------------------------===//

CudaRankComm::CudaRankComm(Groups &groups, int rank, CudaRank &device)
    : groups(groups), rank(rank), device(device), started(groups) {}

const Stream &CudaRankComm::getSideStream() {
  if (!side)
    side = std::make_unique<Stream>(device.getStream()->getGpu());
  return *side;
}

Ends &CudaRankComm::getEnds(Group &group, int index) {
  std::unique_ptr<Ends> &result = ends[&group];
  if (!result) {
    result = std::make_unique<Ends>(device.getStream()->getGpu());
    group.ofBackend[index] = result.get();
  }
  return *result;
}

void CudaRankComm::reserve() {
  if (scratchBytes && (!scratch || scratch->size() < scratchBytes)) {
    if (scratch)
      device.synchronize(); // the old scratch may be in use
    scratch = std::make_unique<DeviceMemory>(device.getStream()->getGpu(), scratchBytes,
                                             "the scratch of collectives");
  }
  started.reserve(startedCount);
}

void CudaRankComm::waitFor(std::optional<int64_t> token) {
  started.wait(token, [&](const AsyncCollective &collective) {
    static_cast<const AsyncPart &>(collective).done.makeWait(*device.getStream());
  });
  auto isWaitedFor = [&](const AsyncMember *member) {
    if (token && member->op.token != *token)
      return false;
    member->over.makeWait(*device.getStream());
    return true;
  };
  underWay.erase(std::remove_if(underWay.begin(), underWay.end(), isWaitedFor), underWay.end());
}

bool CudaRankComm::bind(Bound &bound) {
  bound.self = this;
  if (std::holds_alternative<WaitOp>(bound.instruction->op)) {
    bound.needsHost = groups.mesh.size() > 1;
    bound.run = [](const Bound &bound) {
      static_cast<CudaRankComm *>(bound.self)
          ->waitFor(std::get<WaitOp>(bound.instruction->op).token);
    };
    return true;
  }
  if (const auto *op = std::get_if<MessageOp>(&bound.instruction->op)) {
    int peer = groups.mesh.acrossPipeline(rank, {op->peer}).front();
    bindAsync(bound, op->receives ? std::vector{peer, rank} : std::vector{rank, peer}, op->receives,
              op->token, op->queue, deliver);
    return true;
  }
  const auto *op = std::get_if<CollectiveOp>(&bound.instruction->op);
  if (!op)
    return false;
  checkCollective(*op, "local");
  if (op->overPipeline.empty()) {
    bindCollective(bound, *op);
    return true;
  }
  std::vector<int> members = op->members(groups.mesh, rank);
  checkReduction(*op, int(members.size()));
  bindAsync(bound, members, int(std::find(members.begin(), members.end(), rank) - members.begin()),
            op->token, op->queue, reduceAcross);
  return true;
}

/// Enqueues this rank's part of an asynchronous collective.
static void runAsync(const Bound &bound) {
  const auto &member =
      static_cast<const AsyncMember &>(*static_cast<const Member *>(bound.prepared));
  member.begin.record(*member.comm->getDevice().getStream());
  member.begin.makeWait(*member.stream);
  member.enqueue(bound);
  member.over.record(*member.stream);
  member.comm->addAsync(member);
}

/// Returns true if a collective of `members` ranks may run concurrently with later instructions.
/// Returns false if the result overlaps the operand, because the collective then uses scratch
/// memory that all collectives share.
static bool runsAsync(const CollectiveOp &op, const Bound &bound, int64_t bytes, int64_t members) {
  if (op.token < 0 || members == 1)
    return false;
  if (op.kind == CollectiveOp::AllReduce)
    return true;
  auto in = reinterpret_cast<uintptr_t>(bound.buffers[0]),
       out = reinterpret_cast<uintptr_t>(bound.buffers[1]);
  return in + uintptr_t(bytes) <= out || out + uintptr_t(bytes * members) <= in;
}

std::shared_ptr<Member> CudaRankComm::makeMember(const CollectiveOp &op, const Bound &bound) {
  int64_t members = groups.mesh.shards(op.axes);
  if (!runsAsync(op, bound, op.bytes(groups.mesh), members)) {
    auto member = std::make_shared<Member>();
    member->stream = device.getStream().get();
    return member;
  }
  auto member = std::make_shared<AsyncMember>(device.getStream()->getGpu());
  member->stream = &getSideStream();
  member->enqueue = findRunner(op, int(members));
  return member;
}

void CudaRankComm::bindCollective(Bound &bound, const CollectiveOp &op) {
  std::shared_ptr<Member> member = makeMember(op, bound);
  member->op = op;
  member->group = groups.getGroup(rank, op.axes);
  member->comm = this;
  member->index = int(groups.mesh.shardIndex(op.axes, groups.mesh.coordinates(rank)));
  member->count = int(groups.mesh.shards(op.axes));
  member->ends = &getEnds(*member->group, member->index);
  member->bytes = op.bytes(groups.mesh);
  if (op.kind == CollectiveOp::Permute)
    member->source = permuteSource(op, member->index, member->count);
  if (member->count > 1)
    scratchBytes = std::max(scratchBytes, size_t(member->bytes));
  bound.needsHost = member->count > 1;
  bool isStarted = member->stream != device.getStream().get();
  bound.run = isStarted ? runAsync : findRunner(op, member->count);
  bound.prepared = member.get();
  kept.push_back(std::move(member));
}

void CudaRankComm::bindAsync(Bound &bound, const std::vector<int> &members, int index,
                             int64_t token, const std::string &queue,
                             LocalRendezvous::Action action) {
  auto part = std::make_shared<AsyncPart>(*this);
  started.prepare(*part, members, index, token, queue, action);
  ++startedCount;
  bound.needsHost = true;
  bound.prepared = part.get();
  bound.run = [](const Bound &bound) {
    auto *comm = static_cast<CudaRankComm *>(bound.self);
    auto *part = static_cast<AsyncPart *>(bound.prepared);
    part->ready.record(*comm->device.getStream());
    comm->started.start(*part, bound);
  };
  kept.push_back(std::move(part));
}

} // namespace psrt::cuda
