// Watches over ranks that are threads of this process: when all of them wait for each other, nobody
// comes any more.
#ifndef PSRT_SESSION_DEADLOCKMONITOR_H
#define PSRT_SESSION_DEADLOCKMONITOR_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace psrt {

/// A thread that looks at the ranks several times within the time allowed. A rank that computes, or
/// waits for a device, is never judged, however long it takes.
class DeadlockMonitor {
public:
  struct Look {
    bool allWait = false;  ///< every rank that has not returned waits for another one
    uint64_t progress = 0; ///< instructions that all ranks have begun
  };
  /// `end` is called in the watch's thread when all have waited for `silence` seconds and none has
  /// begun an instruction.
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
