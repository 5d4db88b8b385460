// Communication among ranks that are threads of one process: members publish their buffers, meet,
// and copy or reduce straight out of each other's memory. The place to clone a new backend from.
#include "runtime/comm/local/Barrier.h"
#include "runtime/comm/local/Collectives.h"
#include "runtime/core/Backend.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

namespace psrt {
namespace {

/// The ranks that differ only on one list of axes.
struct Group {
  Group(int members, bool dedicated, const std::atomic<bool> &aborted)
      : barrier(members, dedicated, aborted), slots(members) {}
  Barrier barrier;
  std::vector<void *const *> slots; ///< what each member published
};

class LocalCommunication;

/// One rank's end.
class LocalRank : public RankComm {
public:
  LocalRank(LocalCommunication &owner, int rank) : owner(owner), rank(rank) {}
  bool bind(Bound &bound) override;
  void reserve() override { scratch.resize(scratchBytes); }
  void barrier() override;

  char *getScratch() { return scratch.data(); }

private:
  LocalCommunication &owner;
  int rank;
  size_t scratchBytes = 0;
  std::vector<char> scratch;
  std::deque<std::shared_ptr<void>> kept;
};

class LocalCommunication : public Communication {
public:
  LocalCommunication(const Mesh &mesh, bool dedicated) : mesh(mesh), dedicated(dedicated) {
    for (size_t i = 0; i < mesh.axes.size(); ++i)
      everyAxis.push_back(int(i));
  }
  std::unique_ptr<RankComm> makeRank(int rank) override {
    return std::make_unique<LocalRank>(*this, rank);
  }

  void abort() override {
    aborted = true;
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &[key, group] : groups)
      group->barrier.wake();
  }

  void reset() override {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &[key, group] : groups)
      group->barrier.reset();
    aborted = false;
  }

  Group *getGroup(int rank, const std::vector<int> &axes) {
    std::vector<int> members = mesh.group(rank, axes);
    std::lock_guard<std::mutex> lock(mutex);
    std::unique_ptr<Group> &group = groups[members];
    if (!group)
      group = std::make_unique<Group>(int(members.size()), dedicated, aborted);
    return group.get();
  }

  const Mesh mesh;
  std::vector<int> everyAxis;

private:
  bool dedicated;
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::map<std::vector<int>, std::unique_ptr<Group>> groups;
};

/// One collective as one rank sees it.
struct Member {
  CollectiveOp op;
  Group *group = nullptr;
  LocalRank *rank = nullptr;
  int index = 0, count = 1; ///< this rank's place in the group, and its size
  int source = 0;           ///< permute: who sends to this rank
  int64_t bytes = 0;        ///< of the operand

  void publish(void *const *buffers) const {
    group->slots[index] = buffers;
    group->barrier.arrive();
  }
  /// Buffer `i` of member `m`, valid between the two meetings of a collective.
  char *of(int m, size_t i) const { return static_cast<char *>(group->slots[m][i]); }
  void finish() const { group->barrier.arrive(); }
};

bool overlap(const void *a, int64_t aBytes, const void *b, int64_t bBytes) {
  auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return x < y + bBytes && y < x + aBytes;
}

/// The operand, moved to scratch where the result would overwrite what others still read.
const void *stageOperand(const Bound &bound, const Member &member, int64_t outBytes) {
  const void *in = bound.buffers[0];
  if (!overlap(in, member.bytes, bound.buffers[1], outBytes))
    return in;
  std::memcpy(member.rank->getScratch(), in, member.bytes);
  return member.rank->getScratch();
}

//===--- the collectives --------------------------------------------------===//

constexpr int maxMembers = 1024;

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
    PSRT_FAIL(BadInput, "%s over %d in-process ranks, at most %d are built", op.name(), members,
              maxMembers);
  checkCollective(op, members, "local");
}

} // namespace

bool LocalRank::bind(Bound &bound) {
  if (std::holds_alternative<WaitOp>(bound.instruction->op)) {
    bound.run = [](const Bound &) {}; // what is started is over at once
    return true;
  }
  const auto *op = std::get_if<CollectiveOp>(&bound.instruction->op);
  if (!op)
    return false;
  auto member = std::make_shared<Member>();
  member->op = *op;
  member->group = owner.getGroup(rank, op->axes);
  member->rank = this;
  member->index = int(owner.mesh.shardIndex(op->axes, owner.mesh.coordinates(rank)));
  member->count = int(owner.mesh.shards(op->axes));
  member->bytes = op->bytes(owner.mesh);
  if (op->kind == CollectiveOp::Permute)
    member->source = permuteSource(*op, member->index, member->count);
  check(*op, member->count);
  scratchBytes = std::max(scratchBytes, size_t(member->bytes));
  bound.self = this;
  bound.run = runners[op->kind];
  bound.prepared = member.get();
  kept.push_back(std::move(member));
  return true;
}

void LocalRank::barrier() { owner.getGroup(rank, owner.everyAxis)->barrier.arrive(); }

std::unique_ptr<Communication> makeLocalCommunication(const Mesh &mesh, bool dedicated) {
  return std::make_unique<LocalCommunication>(mesh, dedicated);
}

} // namespace psrt
