// Implements barriers among ranks that are threads. After a rank fails, waits throw Aborted.
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

/// State that all waits of one Communication share.
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
  /// `state` is shared by all barriers of a Communication. If each thread has a core of its own
  /// (`dedicated`), threads spin longer before they sleep.
  Barrier(int members, bool dedicated, WaitState &state)
      : members(members), spins(dedicated ? 4000 : 16), state(state) {}

  /// Waits until all members have arrived. Throws Aborted if a rank failed.
  void arrive();
  /// Wakes the waiting threads. The caller must have set `aborted`.
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
