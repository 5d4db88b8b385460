// Implements communication between CUDA ranks that are threads of one process and share a GPU. Host
// threads synchronize as CPU ranks do (comm/local). Streams wait for each other through events, so
// no GPU kernel spins.
#ifndef PSRT_DEVICE_CUDA_CUDACOMMUNICATION_H
#define PSRT_DEVICE_CUDA_CUDACOMMUNICATION_H

#include "runtime/comm/local/Groups.h"
#include "runtime/device/cuda/CudaDevice.h"

namespace psrt::cuda {

/// Maps rank numbers to the ranks of this process. CudaDevice::makeRank adds the ranks.
class RankTable {
public:
  void set(int rank, CudaRank *device);
  CudaRank &get(int rank);

private:
  std::mutex mutex;
  std::map<int, CudaRank *> ranks;
};

/// Two events per group and member. `ready` means that the member is ready for a collective, and
/// `done` that its part is done. A member records an event again only after a barrier. Before this
/// barrier, all other members have enqueued their waits for the previous record.
struct Ends {
  explicit Ends(const GpuRef &gpu) : gpu(gpu), ready(gpu), done(gpu) {}
  GpuRef gpu;
  Event ready, done;
};

struct Member;
struct AsyncMember;

/// One CUDA rank's communication with the other ranks of its process.
class CudaRankComm : public RankComm {
public:
  CudaRankComm(Groups &groups, int rank, CudaRank &device);
  bool bind(Bound &bound) override;
  void reserve() override;
  void barrier() override { groups.getAll(rank)->barrier.arrive(); }
  void drain() override { waitFor(std::nullopt); }

  CudaRank &getDevice() { return device; }
  /// Returns the stream of asynchronous collectives, which run concurrently with the rank's stream.
  const Stream &getSideStream();
  CUdeviceptr getScratch() const { return scratch->get(); }
  Ends &getEnds(Group &group, int index);
  void waitFor(std::optional<int64_t> token);
  /// Adds a collective that runs in the side stream. The matching wait removes it.
  void addAsync(const AsyncMember &member) { underWay.push_back(&member); }

private:
  void bindCollective(Bound &bound, const CollectiveOp &op);
  /// Creates a member and sets its stream: the side stream if the collective may run asynchronously
  /// (AsyncMember), else the rank's stream. The caller sets the other fields.
  std::shared_ptr<Member> makeMember(const CollectiveOp &op, const Bound &bound);
  void bindAsync(Bound &bound, const std::vector<int> &members, int index, int64_t token,
                 const std::string &queue, LocalRendezvous::Action action);

  Groups &groups;
  int rank;
  CudaRank &device;
  std::unique_ptr<Stream> side;
  AsyncCollectives started;
  std::vector<const AsyncMember *> underWay; ///< started collectives over mesh axes
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

/// One rank's part in one collective.
struct Member {
  CollectiveOp op;
  Group *group = nullptr;
  CudaRankComm *comm = nullptr;
  Ends *ends = nullptr;
  int index = 0, count = 1;       ///< this rank's index in the group; the group's size
  int source = 0;                 ///< permute: index of the rank that sends to this rank
  int64_t bytes = 0;              ///< bytes of the operand
  const Stream *stream = nullptr; ///< stream that runs this rank's part

  /// Begins this rank's part: publishes `buffers` and waits until all members have called
  /// publish(). Then makes this rank's later GPU work wait for the work that the members enqueued
  /// before.
  void publish(void *const *buffers) const;
  /// Ends this rank's part: waits until all members have called leave(). Then makes this rank's
  /// later GPU work wait for the parts of all members.
  void leave() const;
  /// Returns buffer `i` of member `m`; valid between publish() and leave().
  CUdeviceptr of(int m, size_t i) const {
    return reinterpret_cast<CUdeviceptr>(group->slots[m][i]);
  }
  void copy(CUdeviceptr to, CUdeviceptr from, int64_t count) const;
};

/// One rank's part in an asynchronous collective. The part runs in the side stream, after the
/// preceding work of the rank's stream. At the WaitOp, the rank's stream waits for the part.
struct AsyncMember : Member {
  explicit AsyncMember(const GpuRef &gpu) : begin(gpu), over(gpu) {}
  Event begin, over;
  void (*enqueue)(const Bound &) = nullptr; ///< enqueues this rank's part
};

/// Returns the function that runs a collective.
void (*findRunner(const CollectiveOp &op, int members))(const Bound &);
/// Enqueues a reduction over pipeline coordinates for all its members. Called by the last member to
/// arrive.
void reduceAcross(const std::vector<Arrival *> &parts);
/// Enqueues the copy of a message, for both sender and receiver. Called by the later of the two.
void deliver(const std::vector<Arrival *> &parts);

} // namespace psrt::cuda

#endif
