// Implements the watchdog thread.
#include "runtime/session/DeadlockMonitor.h"
#include <algorithm>
#include <chrono>
#include <utility>

namespace psrt {

DeadlockMonitor::DeadlockMonitor(double silence, std::function<Look()> look,
                                 std::function<void()> end)
    : silence(silence), look(std::move(look)), end(std::move(end)), thread([this] { serve(); }) {}

DeadlockMonitor::~DeadlockMonitor() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  thread.join();
}

void DeadlockMonitor::serve() {
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> pause(std::min(0.5, silence / 8));
  Clock::time_point looked = Clock::now(), since = looked;
  uint64_t progress = 0;
  std::unique_lock<std::mutex> lock(mutex);
  while (!changed.wait_for(lock, pause, [&] { return stopping; })) {
    Look now = look();
    Clock::time_point time = Clock::now();
    bool wasStopped = time - looked > 4 * pause; // the process was suspended (SIGSTOP)
    looked = time;
    if (!now.allWait || now.progress != progress || wasStopped)
      since = time;
    progress = now.progress;
    if (time - since <= std::chrono::duration<double>(silence))
      continue;
    since = time;
    end();
  }
}

} // namespace psrt
