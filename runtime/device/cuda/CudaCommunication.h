// Communication among CUDA ranks that are threads of one process and share a GPU. Hosts meet as
// those of the CPU do (comm/local); streams wait for each other by events, and nothing spins on the
// GPU.
#ifndef PSRT_DEVICE_CUDA_CUDACOMMUNICATION_H
#define PSRT_DEVICE_CUDA_CUDACOMMUNICATION_H

#include "runtime/comm/local/Groups.h"
#include "runtime/device/cuda/CudaDevice.h"

namespace psrt::cuda {

/// The ranks of this process, by number, as they are made.
class RankTable {
public:
  void set(int rank, CudaRank *device);
  CudaRank &get(int rank);

private:
  std::mutex mutex;
  std::map<int, CudaRank *> ranks;
};

/// When a member has come to a collective, and when it has done its part. One pair for each group
/// and member: a member records them again only after a meeting to which all have come that wait
/// for them.
struct Ends {
  explicit Ends(const GpuRef &gpu) : gpu(gpu), ready(gpu), done(gpu) {}
  GpuRef gpu;
  Event ready, done;
};

struct Member;
struct AsyncMember;

class CudaRankComm : public RankComm {
public:
  CudaRankComm(Groups &groups, int rank, CudaRank &device);
  bool bind(Bound &bound) override;
  void reserve() override;
  void barrier() override { groups.getAll(rank)->barrier.arrive(); }
  void drain() override { waitFor(std::nullopt); }

  CudaRank &getDevice() { return device; }
  /// What is started runs there, beside the rank's instructions.
  const Stream &getSideStream();
  CUdeviceptr getScratch() const { return scratch->get(); }
  Ends &getEnds(Group &group, int index);
  void waitFor(std::optional<int64_t> token);
  /// From now on it is under way in the side stream, until it is waited for.
  void addAsync(const AsyncMember &member) { underWay.push_back(&member); }

private:
  void bindCollective(Bound &bound, const CollectiveOp &op);
  /// Where and when its part is enqueued; the caller fills in the rest.
  std::shared_ptr<Member> makeMember(const CollectiveOp &op, const Bound &bound);
  void bindAsync(Bound &bound, const std::vector<int> &members, int index, int64_t token,
                   const std::string &queue, LocalRendezvous::Action action);

  Groups &groups;
  int rank;
  CudaRank &device;
  std::unique_ptr<Stream> side;
  AsyncCollectives started;
  std::vector<const AsyncMember *> underWay; ///< collectives over axes, in the side stream
  size_t startedCount = 0, scratchBytes = 0;
  std::unique_ptr<DeviceMemory> scratch;
  std::map<Group *, std::unique_ptr<Ends>> ends;
  std::deque<std::shared_ptr<void>> kept;
};

class CudaCommunication : public Communication {
public:
  CudaCommunication(const Mesh &mesh, bool dedicated, std::shared_ptr<RankTable> table)
      : groups(mesh, dedicated), table(std::move(table)) {}
  std::unique_ptr<RankComm> makeRank(int rank) override {
    return std::make_unique<CudaRankComm>(groups, rank, table->get(rank));
  }
  void abort() override { groups.abort(); }
  void reset() override { groups.reset(); }
  int countWaiting() const override { return groups.countWaiting(); }

private:
  Groups groups;
  std::shared_ptr<RankTable> table;
};

/// One collective as one rank sees it.
struct Member {
  CollectiveOp op;
  Group *group = nullptr;
  CudaRankComm *comm = nullptr;
  Ends *ends = nullptr;
  int index = 0, count = 1;       ///< this rank's place in the group, and its size
  int source = 0;                 ///< permute: who sends to this rank
  int64_t bytes = 0;              ///< of the operand
  const Stream *stream = nullptr; ///< where its part is enqueued

  /// All members have come, and what this rank enqueues now comes after what they had enqueued.
  void meet(void *const *buffers) const;
  /// What any member enqueues from now on comes after all members' parts.
  void leave() const;
  /// Buffer `i` of member `m`, valid between the two.
  CUdeviceptr of(int m, size_t i) const {
    return reinterpret_cast<CUdeviceptr>(group->slots[m][i]);
  }
  void copy(CUdeviceptr to, CUdeviceptr from, int64_t count) const;
};

/// One that is only started: it runs in the side stream, after what stands before it in the rank's;
/// that one waits for it at the wait.
struct AsyncMember : Member {
  explicit AsyncMember(const GpuRef &gpu) : begin(gpu), over(gpu) {}
  Event begin, over;
  void (*enqueue)(const Bound &) = nullptr; ///< its part
};

/// How a collective is run.
void (*findRunner(const CollectiveOp &op, int members))(const Bound &);
/// Among pipeline coordinates: what the last one to come enqueues for all.
void reduceAcross(const std::vector<Arrival *> &parts);
void deliver(const std::vector<Arrival *> &parts);

} // namespace psrt::cuda

#endif
