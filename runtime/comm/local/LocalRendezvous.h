// Implements the rendezvous of asynchronous communication among threads. The last member to arrive
// performs the communication for all members.
#ifndef PSRT_COMM_LOCAL_LOCALRENDEZVOUS_H
#define PSRT_COMM_LOCAL_LOCALRENDEZVOUS_H

#include "runtime/comm/local/Barrier.h"
#include "runtime/core/Backend.h"
#include <atomic>
#include <mutex>
#include <vector>

namespace psrt {

/// Lets a rank's thread wait until another thread has performed the rank's communication.
class Waiter {
public:
  explicit Waiter(WaitState &state) : state(state) {}
  void wake();
  /// Waits until `over` is set. Throws Aborted if a rank failed.
  void wait(const std::atomic<bool> &over, int spins);

private:
  WaitState &state;
  std::atomic<uint32_t> wakes{0};
};

/// One member's part in a rendezvous. The object is reused after the rendezvous is over.
struct Arrival {
  const Bound *bound = nullptr; ///< the started instruction
  Waiter *waiter = nullptr;     ///< waiter of the rank
  std::atomic<bool> over{true};
  Arrival *next = nullptr; ///< next arrival of this member
};

/// A queue among members. The n-th arrivals of all members form one rendezvous.
class LocalRendezvous {
public:
  /// Performs the communication of one rendezvous. The arrivals are in member order.
  using Action = void (*)(const std::vector<Arrival *> &);
  explicit LocalRendezvous(int members) : lines(members) { present.reserve(members); }

  /// Adds an arrival. The last member to arrive runs the action, and then wakes all members.
  void arrive(int member, Arrival &arrival, Action action);
  /// Drops all arrivals. No thread may be in `arrive` or in a wait.
  void reset();

private:
  struct Line {
    Arrival *first = nullptr, *last = nullptr;
  };
  std::mutex mutex; ///< guards `lines`; held during an action, so that the actions of a
                    ///< queue run in order
  std::vector<Line> lines;
  std::vector<Arrival *> present;
};

} // namespace psrt

#endif
