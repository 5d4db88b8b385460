// Where started communication among the threads of one process meets: whoever comes last does it
// for all.
#ifndef PSRT_COMM_LOCAL_LOCALRENDEZVOUS_H
#define PSRT_COMM_LOCAL_LOCALRENDEZVOUS_H

#include "runtime/comm/local/Barrier.h"
#include "runtime/core/Backend.h"
#include <atomic>
#include <mutex>
#include <vector>

namespace psrt {

/// A thread waits here for what others do for it.
class Waiter {
public:
  explicit Waiter(WaitState &state) : state(state) {}
  void ring();
  /// Returns when `over` is set; throws Aborted when a rank failed.
  void wait(const std::atomic<bool> &over, int spins);

private:
  WaitState &state;
  std::atomic<uint32_t> rings{0};
};

/// One member's part in a meeting, started again and again, never while it is under way.
struct Arrival {
  const Bound *bound = nullptr; ///< what is started
  Waiter *waiter = nullptr;         ///< of its rank
  std::atomic<bool> over{true};
  Arrival *next = nullptr; ///< behind it in its member's line
};

/// A queue among members: the n-th that each starts belong together.
class LocalRendezvous {
public:
  /// What is done with the parts of all members, in their order.
  using Action = void (*)(const std::vector<Arrival *> &);
  explicit LocalRendezvous(int members) : lines(members) { present.reserve(members); }

  /// The last one to come acts, then all are told.
  void attend(int member, Arrival &arrival, Action action);
  /// Forgets who had come; nobody may be inside.
  void reset();

private:
  struct Line {
    Arrival *first = nullptr, *last = nullptr;
  };
  std::mutex mutex; ///< of the lines, and held while one acts: meetings of a queue are in order
  std::vector<Line> lines;
  std::vector<Arrival *> present;
};

} // namespace psrt

#endif
