// Watches over the processes of a job: who is lost, silent or has failed is told to all within
// moments.
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

/// Why the job ends: the first that rank 0 hears of.
struct JobFailure {
  int rank = 0; ///< who is at fault
  StatusCode code = StatusCode::Failed;
  std::string text; ///< "was lost: ..."; of a failure that the rank itself reported, its message
  bool reported = false;
};

/// A thread that beats over the rendezvous twice a second, and listens. Rank 0 judges: a connection that
/// ends without a farewell is a lost rank, one that is silent for the time allowed a hung one.
class HeartbeatMonitor {
public:
  HeartbeatMonitor(Rendezvous rendezvous, int rank, double silence);
  ~HeartbeatMonitor();
  HeartbeatMonitor(const HeartbeatMonitor &) = delete;

  int getRank() const { return rank; }
  double getSilence() const { return silence; }

  /// Throws when the job has ended; `what` is what this rank was doing.
  void check(const std::string &what) {
    if (judged.load(std::memory_order_relaxed))
      fail(what);
  }
  /// This rank has failed, and will say why: whatever else it waits for ends with Aborted.
  void abandon();
  /// Becomes readable with the jobFailure, or when the rank has failed.
  int wakeDescriptor() const { return wake[0]; }
  std::optional<JobFailure> getJobFailure();
  /// Tells all, unless another jobFailure stands; returns the one that does, at the latest after two
  /// seconds.
  JobFailure report(JobFailure jobFailure);
  /// A connection to `peer` failed: throws with what rank 0 knows of it, or that.
  [[noreturn]] void failLost(int peer, const std::string &what, const std::string &why);
  /// Called in the monitor's thread two seconds after a jobFailure: this process is stuck elsewhere.
  void setLastResort(std::function<void(const Status &)> function);
  /// Says farewell: connections that end from now on are no fault.
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
  [[noreturn]] void fail(const std::string &what);
  Status statusOf(const JobFailure &jobFailure, const std::string &what) const;

  const int rank;
  const double silence;
  std::vector<Link> links; ///< of the monitor's thread, but `socket` for sending
  int wake[2], stop[2];
  std::atomic<bool> judged{false};
  std::mutex mutex; ///< of what follows, and of sending
  std::condition_variable changed;
  std::optional<JobFailure> jobFailure;
  std::function<void(const Status &)> lastResort;
  std::chrono::steady_clock::time_point judgedAt;
  bool leaving = false;
  std::thread thread;
};

} // namespace psrt

#endif
