// Implements the job in which this process is one rank.
#ifndef PSRT_COMM_PROCESS_PROCESSJOB_H
#define PSRT_COMM_PROCESS_PROCESSJOB_H

#include "runtime/bootstrap/Processes.h"
#include "runtime/comm/process/Transport.h"
#include "runtime/core/Backend.h"

namespace psrt {

class Mpi;

/// Returns how the processes of a launcher communicate by default. Local: there is one process.
Comm findComm(const ProcessIdentity &identity);

/// A job of processes. The constructor joins the job; `leave` or `fail` ends it.
class ProcessJob : public Job {
public:
  /// Connects to the other processes by MPI or sockets (`comm`: Mpi or Tcp). Fails if they do not
  /// connect. `command` is the program with its flags. Rank 0 uses `command` to recognize processes
  /// of another job at the same port.
  ProcessJob(const ProcessIdentity &identity, Comm comm, const std::string &command);
  ~ProcessJob() override;

  int rank() const override { return info.rank; }
  int size() const override { return info.size; }
  int cores() const override { return coreShare; }
  std::vector<std::string> collect(const std::string &text) override;
  std::string broadcast(const std::string &text) override;
  bool agree(uint64_t value) override;
  void barrier() override;
  std::unique_ptr<Communication> makeCommunication(const Mesh &mesh,
                                                   const std::vector<Queue> &queues) override;

  void stopListening() override { transports->stopListening(); }

  /// Waits for all ranks, then leaves the job. Must not be called after a failure.
  void leave();
  bool hasLeft() const { return left; }
  /// Returns the failure that ended the job, if there was one.
  std::optional<JobFailure> findFailure() { return monitor->getJobFailure(); }
  /// Reports to all ranks why this rank ends. Returns whether this process must print the error.
  bool fail(const Status &status);
  /// Sets a function that is called if this process is still running two seconds after the job has
  /// failed.
  void setLastResort(std::function<void(const Status &)> function) {
    monitor->setLastResort(std::move(function));
  }

private:
  void joinMpi(const ProcessIdentity &identity);
  void joinTcp(const ProcessIdentity &identity);
  void startMonitor(Rendezvous rendezvous);
  void openRanks();

  Comm comm;
  uint64_t commandHash; ///< hash of the program with its flags
  ProcessInfo info;
  int coreShare = 1;
  bool dedicated = false;
  bool left = false;
  std::unique_ptr<HeartbeatMonitor> monitor;
  std::shared_ptr<Mpi> mpi;
  std::unique_ptr<Transports> transports;
  std::unique_ptr<Transport> ranks; ///< channel 0, between all ranks
  int channels = 1;                 ///< number of the next channel, equal on all ranks
};

} // namespace psrt

#endif
