// Detects deadlocks among ranks that are threads of this process: all ranks wait for each other.
#ifndef PSRT_SESSION_DEADLOCKMONITOR_H
#define PSRT_SESSION_DEADLOCKMONITOR_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace psrt {

/// A watchdog thread that polls the state of all ranks several times per timeout. A rank that
/// computes or waits for a device is never regarded as deadlocked.
class DeadlockMonitor {
public:
  /// A snapshot of the ranks.
  struct Look {
    bool allWait = false;  ///< every rank that has not returned waits for another rank
    uint64_t progress = 0; ///< instructions started by all ranks together
  };
  /// `silence` is the timeout in seconds. The watchdog thread calls `end` after all ranks have
  /// waited for this time without starting an instruction.
  DeadlockMonitor(double silence, std::function<Look()> look, std::function<void()> end);
  ~DeadlockMonitor();
  DeadlockMonitor(const DeadlockMonitor &) = delete;
  DeadlockMonitor &operator=(const DeadlockMonitor &) = delete;

private:
  void serve();

  const double silence;
  std::function<Look()> look;
  std::function<void()> end;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::thread thread;
};

} // namespace psrt

#endif
