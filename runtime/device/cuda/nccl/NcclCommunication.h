// Communication among CUDA ranks that have a GPU each, in one process or in many: NCCL moves the
// data, the host's communication (threads, MPI or TCP) brings the ranks together.
#ifndef PSRT_DEVICE_CUDA_NCCL_NCCLCOMMUNICATION_H
#define PSRT_DEVICE_CUDA_NCCL_NCCLCOMMUNICATION_H

#include "runtime/device/cuda/CudaCommunication.h"
#include "runtime/device/cuda/nccl/Groups.h"
#include "runtime/device/cuda/nccl/CommStream.h"
#include <mutex>

namespace psrt::nccl {

/// What one rank's instruction does in its group.
struct NcclOp {
  CollectiveOp op; ///< of a collective
  const MessageOp *message = nullptr;
  const Communicator *group = nullptr; ///< null where the rank is alone in it
  CommStream *commStream = nullptr;
  int index = 0, count = 1;                 ///< this rank's place in the group, and its size
  int peer = 0;                             ///< of a message: its place in the group
  int source = 0;                           ///< of a permute: who sends to this rank
  int64_t bytes = 0;                        ///< of the operand, or the message
  int64_t position = 0;                     ///< which of the commStream's it is
  std::unique_ptr<cuda::Event> ready, done; ///< where it is started beside the instructions
};

class NcclCommunication;

class NcclRank : public RankComm {
public:
  NcclRank(NcclCommunication &all, std::unique_ptr<Communicators> communicators,
           std::unique_ptr<RankComm> host, const Mesh &mesh, int rank, cuda::CudaRank &device);
  ~NcclRank() override;
  bool bind(Bound &bound) override;
  void reserve() override;
  void barrier() override;
  void drain() override;
  void startTrace() override { isTraced = true; }
  std::vector<AsyncTimes> takeTimes() override;
  void abort();

  cuda::CudaRank &getDevice() { return device; }

private:
  void bindCollective(Bound &bound, const CollectiveOp &op);
  void bindMessage(Bound &bound, const MessageOp &op);
  void bindOp(Bound &bound, NcclOp op, int64_t token, const std::string &queue,
              const std::string &where);
  CommStream &getCommStream(const std::string &queue);
  void run(const Bound &bound, NcclOp &op);
  void wait(int64_t token);
  void watch();
  void checkProgress();

  NcclCommunication &all;
  std::unique_ptr<Communicators> communicators;
  std::unique_ptr<RankComm> host;
  Mesh mesh;
  int rank;
  cuda::CudaRank &device;
  std::map<std::string, std::unique_ptr<CommStream>> commStreams; ///< by queue; "": the rank's own stream
  CommStream pulse;         ///< how far the rank's own stream has come, computing or not
  int64_t pulses = 0; ///< enqueued so far
  std::deque<NcclOp> ops;
  std::map<int64_t, std::vector<NcclOp *>>
      started; ///< by token, what was started and not waited for
  /// What was started since times were taken.
  struct Span {
    Span(const Bound *bound, const cuda::GpuRef &gpu)
        : bound(bound), begin(gpu, /*timed=*/true), end(gpu, /*timed=*/true) {}
    const Bound *bound;
    cuda::Event begin, end;
  };
  std::deque<Span> spans;
  bool isTraced = false;
  double progressAt = 0; ///< when the GPU was seen to go on
};

class NcclCommunication : public Communication {
public:
  /// `host`: of the same ranks; `areProcesses`: each is in a process of its own.
  NcclCommunication(Groups groups, std::unique_ptr<Communication> host, bool areProcesses,
                    std::shared_ptr<cuda::RankTable> table);
  std::unique_ptr<RankComm> makeRank(int rank) override;
  void abort() override;
  /// Of the ranks of this process: nothing of them stays under way on a GPU.
  void abortRanks();
  void reset() override { host->reset(); }
  int countWaiting() const override { return host->countWaiting(); }
  void bring(int from, const void *data, void *received, size_t bytes,
             const std::string &what) override {
    host->bring(from, data, received, bytes, what);
  }
  void share(void *data, size_t bytes, const std::string &what) override {
    host->share(data, bytes, what);
  }

private:
  /// What rank 0 tells all others.
  struct Greeting {
    ncclUniqueId id;
    int version;
  };
  Greeting greet();

  NcclRef library;
  Groups groups;
  std::unique_ptr<Communication> host;
  bool areProcesses;
  std::shared_ptr<cuda::RankTable> table;
  std::mutex mutex; ///< of what follows
  std::unique_ptr<Greeting> greeting;
  std::vector<NcclRank *> ranks;
};

} // namespace psrt::nccl

#endif
