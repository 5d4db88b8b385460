// Implements communication among ranks that are threads of one process. Members publish pointers to
// their buffers, wait at a barrier, and then read directly from each other's memory. Start from
// this backend to write a new one.
#include "runtime/comm/local/Collectives.h"
#include "runtime/comm/local/Groups.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cstring>

namespace psrt {
namespace {

/// The communication of one rank.
class LocalRank : public RankComm {
public:
  LocalRank(Groups &groups, int rank) : groups(groups), rank(rank), started(groups) {}
  bool bind(Bound &bound) override;
  void reserve() override {
    scratch.resize(scratchBytes);
    started.reserve(kept.size());
  }
  void barrier() override { groups.getAll(rank)->barrier.arrive(); }
  void drain() override { waitFor(std::nullopt); }

  char *getScratch() { return scratch.data(); }
  /// Waits for the work of a token, or for all work.
  void waitFor(std::optional<int64_t> token) {
    started.wait(token, [](const AsyncCollective &) {});
  }

private:
  void bindCollective(Bound &bound, const CollectiveOp &op);
  void bindAsync(Bound &bound, const std::vector<int> &members, int index, int64_t token,
                 const std::string &queue, LocalRendezvous::Action action);

  Groups &groups;
  int rank;
  AsyncCollectives started;
  size_t scratchBytes = 0;
  std::vector<char> scratch;
  std::deque<std::shared_ptr<void>> kept;
};

class LocalCommunication : public Communication {
public:
  LocalCommunication(const Mesh &mesh, bool dedicated) : groups(mesh, dedicated) {}
  std::unique_ptr<RankComm> makeRank(int rank) override {
    return std::make_unique<LocalRank>(groups, rank);
  }
  void abort() override { groups.abort(); }
  void reset() override { groups.reset(); }
  int countWaiting() const override { return groups.countWaiting(); }

private:
  Groups groups;
};

/// A collective, bound for one rank.
struct Member {
  CollectiveOp op;
  Group *group = nullptr;
  LocalRank *rank = nullptr;
  int index = 0, count = 1; ///< index of this rank in the group; size of the group
  int source = 0;           ///< permute: the member that sends to this rank
  int64_t bytes = 0;        ///< bytes of the operand

  void publish(void *const *buffers) const {
    group->slots[index] = buffers;
    group->barrier.arrive();
  }
  /// Returns buffer `i` of member `m`, valid between the two barriers of a collective.
  char *of(int m, size_t i) const { return static_cast<char *>(group->slots[m][i]); }
  void finish() const { group->barrier.arrive(); }
};

bool overlap(const void *a, int64_t aBytes, const void *b, int64_t bBytes) {
  auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + bBytes && y < x + aBytes;
}

/// Returns the operand. If the result overlaps the operand, copies the operand to scratch memory
/// and returns the copy: other members read the copy while this rank writes its result.
const void *stageOperand(const Bound &bound, const Member &member, int64_t outBytes) {
  const void *in = bound.buffers[0];
  if (!overlap(in, member.bytes, bound.buffers[1], outBytes))
    return in;
  std::memcpy(member.rank->getScratch(), in, member.bytes);
  return member.rank->getScratch();
}

//===--- among pipeline coordinates ---------------------------------------===//

void deliver(const std::vector<Arrival *> &parts) {
  checkMessage(*parts[0]->bound, *parts[1]->bound);
  const auto &message = std::get<MessageOp>(parts[0]->bound->instruction->op);
  std::memcpy(parts[1]->bound->buffers[0], parts[0]->bound->buffers[0], message.bytes);
}

constexpr int maxMembers = 1024;

void reduceAcross(const std::vector<Arrival *> &parts) {
  checkReductions(parts);
  const auto &op = std::get<CollectiveOp>(parts[0]->bound->instruction->op);
  int members = int(parts.size());
  const void *ins[maxMembers];
  void *outs[maxMembers];
  for (size_t pair = 0, pairs = op.counts.size(); pair < pairs; ++pair) {
    for (int i = 0; i < members; ++i) {
      ins[i] = parts[i]->bound->buffers[pair];
      outs[i] = parts[i]->bound->buffers[pairs + pair];
    }
    reduceRange(op.reduction, op.dtype, ins, members, outs, members, 0, op.counts[pair]);
  }
}

//===--- the collectives --------------------------------------------------===//

void runAllReduce(const Bound &bound) {
  const Member &m = *static_cast<const Member *>(bound.prepared);
  m.publish(bound.buffers);
  const void *ins[maxMembers];
  void *outs[maxMembers];
  for (size_t pair = 0, pairs = m.op.counts.size(); pair < pairs; ++pair) {
    for (int i = 0; i < m.count; ++i) {
      ins[i] = m.of(i, pair);
      outs[i] = m.of(i, pairs + pair);
    }
    int64_t count = m.op.counts[pair], part = ((count + m.count - 1) / m.count + 15) / 16 * 16;
    int64_t lo = std::min(count, m.index * part), hi = std::min(count, lo + part);
    reduceRange(m.op.reduction, m.op.dtype, ins, m.count, outs, m.count, lo, hi);
  }
  m.finish();
}

void runReduceScatter(const Bound &bound) {
  const Member &m = *static_cast<const Member *>(bound.prepared);
  int64_t element = dtypeSize(m.op.dtype), row = m.op.size * m.op.inner,
          bytes = m.op.outer * row * element;
  bool staged = overlap(bound.buffers[0], m.bytes, bound.buffers[1], bytes);
  char *out = staged ? m.rank->getScratch() : static_cast<char *>(bound.buffers[1]);
  m.publish(bound.buffers);
  const void *ins[maxMembers];
  for (int64_t o = 0; o < m.op.outer; ++o) {
    for (int i = 0; i < m.count; ++i)
      ins[i] = m.of(i, 0) + (o * m.count + m.index) * row * element;
    void *target = out + o * row * element;
    reduceRange(m.op.reduction, m.op.dtype, ins, m.count, &target, 1, 0, row);
  }
  m.finish();
  if (staged)
    std::memcpy(bound.buffers[1], out, bytes);
}

void runAllGather(const Bound &bound) {
  const Member &m = *static_cast<const Member *>(bound.prepared);
  int64_t row = m.op.size * m.op.inner * dtypeSize(m.op.dtype);
  void *published[] = {const_cast<void *>(stageOperand(bound, m, m.op.outer * row * m.count))};
  m.publish(published);
  char *out = static_cast<char *>(bound.buffers[1]);
  for (int64_t o = 0; o < m.op.outer; ++o)
    for (int i = 0; i < m.count; ++i)
      std::memcpy(out + (o * m.count + i) * row, m.of(i, 0) + o * row, row);
  m.finish();
}

void runAllToAll(const Bound &bound) {
  const Member &m = *static_cast<const Member *>(bound.prepared);
  void *published[] = {const_cast<void *>(stageOperand(bound, m, m.bytes))};
  m.publish(published);
  for (int i = 0; i < m.count; ++i) {
    PartCopy copy{m.op.shape, dtypeSize(m.op.dtype), m.op.split, m.count,
                  m.index,    m.op.concat,           m.count,    i};
    copy.run(m.of(i, 0), static_cast<char *>(bound.buffers[1]));
  }
  m.finish();
}

void runPermute(const Bound &bound) {
  const Member &m = *static_cast<const Member *>(bound.prepared);
  void *published[] = {const_cast<void *>(stageOperand(bound, m, m.bytes))};
  m.publish(published);
  std::memcpy(bound.buffers[1], m.of(m.source, 0), m.bytes);
  m.finish();
}

void runShardSlice(const Bound &bound) {
  const Member &m = *static_cast<const Member *>(bound.prepared);
  sliceShard(m.op, m.index, static_cast<const char *>(bound.buffers[0]),
             static_cast<char *>(bound.buffers[1]));
}

constexpr void (*runners[])(const Bound &) = {runAllReduce, runReduceScatter, runAllGather,
                                              runAllToAll,  runPermute,       runShardSlice};

void check(const CollectiveOp &op, int members) {
  if (members > maxMembers)
    PSRT_FAIL(BadInput, "%s over %d in-process ranks; at most %d are supported", op.name(), members,
              maxMembers);
  checkCollective(op, "local");
}

} // namespace

bool LocalRank::bind(Bound &bound) {
  bound.self = this;
  if (std::holds_alternative<WaitOp>(bound.instruction->op)) {
    bound.run = [](const Bound &bound) {
      static_cast<LocalRank *>(bound.self)->waitFor(std::get<WaitOp>(bound.instruction->op).token);
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
  std::vector<int> members = op->members(groups.mesh, rank);
  check(*op, int(members.size()));
  if (op->overPipeline.empty())
    bindCollective(bound, *op);
  else
    bindAsync(bound, members,
              int(std::find(members.begin(), members.end(), rank) - members.begin()), op->token,
              op->queue, reduceAcross);
  return true;
}

void LocalRank::bindCollective(Bound &bound, const CollectiveOp &op) {
  auto member = std::make_shared<Member>();
  member->op = op;
  member->group = groups.getGroup(rank, op.axes);
  member->rank = this;
  member->index = int(groups.mesh.shardIndex(op.axes, groups.mesh.coordinates(rank)));
  member->count = int(groups.mesh.shards(op.axes));
  member->bytes = op.bytes(groups.mesh);
  if (op.kind == CollectiveOp::Permute)
    member->source = permuteSource(op, member->index, member->count);
  scratchBytes = std::max(scratchBytes, size_t(member->bytes));
  bound.run = runners[op.kind];
  bound.prepared = member.get();
  kept.push_back(std::move(member));
}

void LocalRank::bindAsync(Bound &bound, const std::vector<int> &members, int index, int64_t token,
                          const std::string &queue, LocalRendezvous::Action action) {
  auto part = std::make_shared<AsyncCollective>();
  started.prepare(*part, members, index, token, queue, action);
  bound.prepared = part.get();
  bound.run = [](const Bound &bound) {
    static_cast<LocalRank *>(bound.self)
        ->started.start(*static_cast<AsyncCollective *>(bound.prepared), bound);
  };
  kept.push_back(std::move(part));
}

std::unique_ptr<Communication> makeLocalCommunication(const Mesh &mesh, bool dedicated) {
  return std::make_unique<LocalCommunication>(mesh, dedicated);
}

} // namespace psrt
