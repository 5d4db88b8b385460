// Monitors the processes of a job, and reports a lost, hung or failed rank to all ranks.
#ifndef PSRT_COMM_PROCESS_HEARTBEATMONITOR_H
#define PSRT_COMM_PROCESS_HEARTBEATMONITOR_H

#include "runtime/bootstrap/Rendezvous.h"
#include "runtime/core/Status.h"
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace psrt {

/// The failure that ends a job: the first failure that reaches rank 0.
struct JobFailure {
  int rank = 0; ///< the failed rank
  StatusCode code = StatusCode::Failed;
  std::string text; ///< "was lost: ...", or the message that the rank itself reported
  bool reported = false;
};

/// A thread that sends and receives heartbeats over the rendezvous connections, twice per second. A
/// rank is lost if its connection ends without a farewell message, and hung if no heartbeat arrives
/// for `silence` seconds. Rank 0 monitors all other ranks, and reports the first failure to them.
/// The other ranks monitor rank 0.
class HeartbeatMonitor {
public:
  HeartbeatMonitor(Rendezvous rendezvous, int rank, double silence);
  ~HeartbeatMonitor();
  HeartbeatMonitor(const HeartbeatMonitor &) = delete;

  int getRank() const { return rank; }
  double getSilence() const { return silence; }

  /// Throws if the job has failed. The message contains `activity`, the current operation of this
  /// rank.
  void check(const std::string &activity) {
    if (judged.load(std::memory_order_relaxed))
      fail(activity);
  }
  /// Marks this rank as failed before it reports the reason. Waits in its other threads then throw
  /// Aborted.
  void abandon();
  /// Returns a descriptor that becomes readable when the job or this rank has failed.
  int wakeDescriptor() const { return wake[0]; }
  std::optional<JobFailure> getJobFailure();
  /// Reports a failure to all ranks. Returns the failure that was reported first, which may be the
  /// failure of another rank. Takes at most two seconds.
  JobFailure report(const JobFailure &found);
  /// Fails because the connection to `peer` broke. Throws the failure that rank 0 reports, or else
  /// `reason`.
  [[noreturn]] void failLost(int peer, const std::string &activity, const std::string &reason);
  /// Sets a function that the monitor's thread calls if this process is still running two seconds
  /// after a failure.
  void setLastResort(std::function<void(const Status &)> function);
  /// Sends farewell messages. Connections that end afterwards are not failures.
  void leave();

private:
  struct Link {
    Socket socket;
    int rank;
    std::string input;
    std::chrono::steady_clock::time_point heard;
    bool left = false;
  };
  void serve();
  void beat();
  void listen(Link &link);
  bool takeMessage(Link &link);
  void look();
  void judge(JobFailure jobFailure);
  void send(Link &link, uint32_t kind, const JobFailure &jobFailure);
  [[noreturn]] void fail(const std::string &activity);
  Status statusOf(const JobFailure &jobFailure, const std::string &activity) const;

  const int rank;
  const double silence;
  std::vector<Link> links; ///< used by the monitor's thread; `socket` also for sending
  int wake[2], stop[2];
  std::atomic<bool> judged{false};
  std::mutex mutex; ///< guards the members below, and sending
  std::condition_variable changed;
  std::optional<JobFailure> jobFailure;
  std::function<void(const Status &)> lastResort;
  std::chrono::steady_clock::time_point judgedAt;
  bool leaving = false;
  std::thread thread;
};

} // namespace psrt

#endif
