// Implements communication between CUDA ranks with one GPU each, in one or many processes. NCCL
// moves the data. The host's communication (threads, MPI or TCP) connects the ranks.
#ifndef PSRT_DEVICE_CUDA_NCCL_NCCLCOMMUNICATION_H
#define PSRT_DEVICE_CUDA_NCCL_NCCLCOMMUNICATION_H

#include "runtime/device/cuda/CudaCommunication.h"
#include "runtime/device/cuda/nccl/CommStream.h"
#include "runtime/device/cuda/nccl/Groups.h"
#include <mutex>

namespace psrt::nccl {

/// A collective or message of one rank, with its group and position.
struct NcclOp {
  CollectiveOp op; ///< set for collectives
  /// Set for messages, else null.
  const MessageOp *message = nullptr;
  const Communicator *group = nullptr; ///< null if the rank is the only member
  CommStream *commStream = nullptr;
  int index = 0, count = 1; ///< this rank's index in the group; the group's size
  int peer = 0;             ///< message: index of the peer in the group
  int source = 0;           ///< permute: index of the rank that sends to this rank
  int64_t bytes = 0;        ///< bytes of the operand or message
  int64_t position = 0;     ///< number in the CommStream; -1 for a group of one rank
  std::unique_ptr<cuda::Event> ready, done; ///< set for asynchronous operations
};

class NcclCommunication;

/// One rank's communication: its communicators, CommStreams and progress.
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
  std::map<std::string, std::unique_ptr<CommStream>>
      commStreams;    ///< by queue; "" for the rank's own stream
  CommStream pulse;   ///< tracks the progress of the rank's own stream, including computation
  int64_t pulses = 0; ///< number of positions that have been enqueued in `pulse`
  std::deque<NcclOp> ops;
  std::map<int64_t, std::vector<NcclOp *>>
      started; ///< operations started but not yet waited for, by token
  /// The timed events before and after an asynchronous operation.
  struct Span {
    Span(const Bound *bound, const cuda::GpuRef &gpu)
        : bound(bound), begin(gpu, /*timed=*/true), end(gpu, /*timed=*/true) {}
    const Bound *bound;
    cuda::Event begin, end;
  };
  std::deque<Span> spans;
  bool isTraced = false;
  double progressAt = 0; ///< time of the last observed progress, in seconds
};

/// The NCCL communication of all ranks of this process.
class NcclCommunication : public Communication {
public:
  /// `host` connects the same ranks through threads, MPI or TCP. `areProcesses` is true if each
  /// rank is a separate process.
  NcclCommunication(Groups groups, std::unique_ptr<Communication> host, bool areProcesses,
                    std::shared_ptr<cuda::RankTable> table);
  std::unique_ptr<RankComm> makeRank(int rank) override;
  void abort() override;
  /// Aborts the communicators of this process's ranks, so that no operation keeps running on a GPU.
  void abortRanks();
  void reset() override { host->reset(); }
  int countWaiting() const override { return host->countWaiting(); }
  void sendToRank0(int from, const void *data, void *received, size_t bytes,
                   const std::string &purpose) override {
    host->sendToRank0(from, data, received, bytes, purpose);
  }
  void broadcast(void *data, size_t bytes, const std::string &purpose) override {
    host->broadcast(data, bytes, purpose);
  }

private:
  /// Data that rank 0 sends to all ranks.
  struct JobInfo {
    ncclUniqueId id;
    int version;
  };
  JobInfo getJobInfo();

  NcclRef library;
  Groups groups;
  std::unique_ptr<Communication> host;
  bool areProcesses;
  std::shared_ptr<cuda::RankTable> table;
  std::mutex mutex; ///< guards the members below
  std::unique_ptr<JobInfo> jobInfo;
  std::vector<NcclRank *> ranks;
};

} // namespace psrt::nccl

#endif
