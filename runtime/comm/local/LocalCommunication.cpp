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

/// Copies part `m.index` along `split` of one member's operand into place `from` along `concat` of
/// the result.
void copyPart(const Member &m, const char *in, char *out, int from) {
  std::vector<int64_t> const &shape = m.op.shape;
  int64_t element = dtypeSize(m.op.dtype), rank = shape.size(), index[16] = {};
  int64_t part[16], inStride[16], outStride[16], inUnit = element, outUnit = element;
  for (int64_t d = rank; d-- > 0;) {
    part[d] = d == m.op.split ? shape[d] / m.count : shape[d];
    inStride[d] = inUnit;
    outStride[d] = outUnit;
    inUnit *= shape[d];
    outUnit *= part[d] * (d == m.op.concat ? m.count : 1);
  }
  in += m.index * part[m.op.split] * inStride[m.op.split];
  out += from * part[m.op.concat] * outStride[m.op.concat];
  while (true) {
    int64_t a = 0, b = 0;
    for (int64_t d = 0; d + 1 < rank; ++d) {
      a += index[d] * inStride[d];
      b += index[d] * outStride[d];
    }
    std::memcpy(out + b, in + a, part[rank - 1] * element);
    int64_t d = rank - 1;
    while (d > 0 && ++index[d - 1] == part[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

void runAllToAll(const Bound &bound) {
  const Member &m = *static_cast<const Member *>(bound.prepared);
  void *published[] = {const_cast<void *>(stageOperand(bound, m, m.bytes))};
  m.publish(published);
  for (int i = 0; i < m.count; ++i)
    copyPart(m, m.of(i, 0), static_cast<char *>(bound.buffers[1]), i);
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
  int64_t unit = m.op.inner * dtypeSize(m.op.dtype);
  int64_t first = std::min(m.op.whole, m.index * m.op.size),
          kept = std::min(m.op.size, m.op.whole - first);
  auto *in = static_cast<const char *>(bound.buffers[0]);
  auto *out = static_cast<char *>(bound.buffers[1]);
  for (int64_t o = 0; o < m.op.outer; ++o) {
    std::memmove(out + o * m.op.size * unit, in + (o * m.op.whole + first) * unit, kept * unit);
    std::memset(out + (o * m.op.size + kept) * unit, 0, (m.op.size - kept) * unit);
  }
}

constexpr void (*runners[])(const Bound &) = {runAllReduce, runReduceScatter, runAllGather,
                                              runAllToAll,  runPermute,       runShardSlice};

void check(const CollectiveOp &op, int members) {
  if (members > maxMembers)
    PSRT_FAIL(BadInput, "%s over %d in-process ranks, at most %d are built", op.name(), members,
              maxMembers);
  bool reduces = op.kind == CollectiveOp::AllReduce || op.kind == CollectiveOp::ReduceScatter;
  if (reduces && !canReduce(op.dtype))
    PSRT_FAIL(BadInput, "%s of %s is not built in comm local", op.name(), dtypeName(op.dtype));
  if (op.kind == CollectiveOp::AllToAll && (op.shape.empty() || op.shape.size() > 16))
    PSRT_FAIL(BadInput, "all_to_all of a tensor with %zu dims; 1 to 16 are built", op.shape.size());
}

} // namespace

bool LocalRank::bind(Bound &bound) {
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
  if (op->kind == CollectiveOp::Permute) {
    auto it = std::find(op->targets.begin(), op->targets.end(), member->index);
    if (it == op->targets.end() || op->targets.size() != size_t(member->count))
      PSRT_FAIL(BadInput, "the targets of a permute are not a permutation of its %d members",
                member->count);
    member->source = int(it - op->targets.begin());
  }
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
