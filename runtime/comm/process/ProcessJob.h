// The job that this process is one rank of: joined once, used by a session, left or failed.
#ifndef PSRT_COMM_PROCESS_PROCESSJOB_H
#define PSRT_COMM_PROCESS_PROCESSJOB_H

#include "runtime/bootstrap/Processes.h"
#include "runtime/comm/process/Transport.h"
#include "runtime/core/Backend.h"

namespace psrt {

class Mpi;

class ProcessJob : public Job {
public:
  /// Meets the other processes over MPI or over sockets (`comm`: "mpi", "tcp"); fails when they do
  /// not come. `command` is the program with its flags, by which two jobs are told apart that meet
  /// at one port.
  ProcessJob(const ProcessIdentity &place, const std::string &comm, const std::string &command);
  ~ProcessJob() override;

  int rank() const override { return info.rank; }
  int size() const override { return info.size; }
  int cores() const override { return coreShare; }
  std::vector<std::string> collect(const std::string &text) override;
  void meet() override;
  std::unique_ptr<Communication> makeCommunication(const Mesh &mesh,
                                                   const std::vector<Queue> &queues) override;

  void stopListening() override { transports->stopListening(); }

  /// The end of a job in which nothing failed: waits for all.
  void leave();
  /// Tells all others why this rank ends; whether this process is the one to say so to the user.
  bool fail(const Status &status);
  /// What is done with a process that is stuck elsewhere two seconds after the job has ended.
  void setLastResort(std::function<void(const Status &)> function) {
    monitor->setLastResort(std::move(function));
  }

private:
  void joinMpi(const ProcessIdentity &place);
  void joinTcp(const ProcessIdentity &place);
  void startMonitor(Rendezvous rendezvous);
  void openRanks();

  std::string comm;
  uint64_t command;
  ProcessInfo info;
  int coreShare = 1;
  bool dedicated = false;
  std::unique_ptr<HeartbeatMonitor> monitor;
  std::shared_ptr<Mpi> mpi;
  std::unique_ptr<Transports> transports;
  std::unique_ptr<Transport> ranks; ///< channel 0, among all
  int channels = 1;                 ///< opened so far
};

} // namespace psrt

#endif
