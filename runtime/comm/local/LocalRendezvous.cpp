// Implements waits, and queues of arrivals.
#include "runtime/comm/local/LocalRendezvous.h"
#include "runtime/core/Status.h"
#include <algorithm>

namespace psrt {

void Waiter::wake() {
  wakes.fetch_add(1);
  wakes.notify_all();
}

void Waiter::wait(const std::atomic<bool> &over, int spins) {
  for (int i = 0; i < spins && !over.load(); ++i)
    pauseThread();
  if (over.load())
    return;
  CountedWait counted(state);
  while (!over.load()) {
    uint32_t seen = wakes.load();
    if (state.aborted.load())
      throw Aborted();
    if (!over.load())
      wakes.wait(seen);
  }
}

void LocalRendezvous::arrive(int member, Arrival &arrival, Action action) {
  arrival.over = false;
  arrival.next = nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  Line &line = lines[member];
  (line.first ? line.last->next : line.first) = &arrival;
  line.last = &arrival;
  if (std::any_of(lines.begin(), lines.end(), [](const Line &line) { return !line.first; }))
    return;
  present.clear();
  for (Line &each : lines) {
    present.push_back(each.first);
    each.first = each.first->next;
  }
  action(present);
  for (Arrival *arrival : present) {
    Waiter *waiter = arrival->waiter; // once `over` is set, the rank may reuse the arrival
    arrival->over = true;
    waiter->wake();
  }
}

void LocalRendezvous::reset() { lines.assign(lines.size(), {}); }

} // namespace psrt
