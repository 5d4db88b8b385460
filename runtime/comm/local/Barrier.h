// Implements barriers among ranks that are threads. After a failure of a rank, waits throw Aborted.
#ifndef PSRT_COMM_LOCAL_BARRIER_H
#define PSRT_COMM_LOCAL_BARRIER_H

#include <atomic>
#include <cstdint>

namespace psrt {

/// Pauses the CPU between two polls.
inline void pauseThread() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// The state that all waits of one communication share.
struct WaitState {
  std::atomic<bool> aborted{false};
  std::atomic<int> waiting{0}; ///< number of threads that sleep until another rank arrives
};

/// Counts the current thread as waiting during the object's lifetime.
class CountedWait {
public:
  explicit CountedWait(WaitState &state) : state(state) { ++state.waiting; }
  ~CountedWait() { --state.waiting; }
  CountedWait(const CountedWait &) = delete;
  CountedWait &operator=(const CountedWait &) = delete;

private:
  WaitState &state;
};

/// A barrier of a group of threads.
class Barrier {
public:
  /// `state` is shared by all barriers of a communication. With `dedicated` cores, threads spin
  /// longer.
  Barrier(int members, bool dedicated, WaitState &state)
      : members(members), spins(dedicated ? 4000 : 16), state(state) {}

  /// Waits until all members have arrived. Throws Aborted if a rank failed.
  void arrive();
  /// Wakes the waiting threads; `aborted` must be set before.
  void wake();
  /// Resets the number of arrived members. No thread may be in `arrive`.
  void reset() { arrived = 0; }

private:
  int members, spins;
  WaitState &state;
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<int> arrived{0};
};

} // namespace psrt

#endif
