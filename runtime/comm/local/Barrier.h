// Where the threads of a group of in-process ranks meet, and are woken when one of them fails.
#ifndef PSRT_COMM_LOCAL_BARRIER_H
#define PSRT_COMM_LOCAL_BARRIER_H

#include <atomic>
#include <cstdint>

namespace psrt {

/// What a thread does between two looks.
inline void pauseThread() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// The state that all waits of one communication share.
struct WaitState {
  std::atomic<bool> aborted{false};
  std::atomic<int> waiting{0}; ///< threads that are asleep until another rank comes
};

/// Counts its thread among those that wait.
class CountedWait {
public:
  explicit CountedWait(WaitState &state) : state(state) { ++state.waiting; }
  ~CountedWait() { --state.waiting; }
  CountedWait(const CountedWait &) = delete;
  CountedWait &operator=(const CountedWait &) = delete;

private:
  WaitState &state;
};

class Barrier {
public:
  /// `state` is shared by all barriers of a communication.
  Barrier(int members, bool dedicated, WaitState &state)
      : members(members), spins(dedicated ? 4000 : 16), state(state) {}

  /// Returns when all members have arrived; throws Aborted when a rank failed.
  void arrive();
  /// Wakes who waits; `aborted` is set before.
  void wake();
  /// Forgets who had arrived; nobody may be inside.
  void reset() { arrived = 0; }

private:
  int members, spins;
  WaitState &state;
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<int> arrived{0};
};

} // namespace psrt

#endif
