// Implements the threads of one rank. While waiting for work, a thread first spins and then sleeps.
// Threads claim pieces by fetch_add.
#ifndef PSRT_DEVICE_CPU_THREADPOOL_H
#define PSRT_DEVICE_CPU_THREADPOOL_H

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace psrt {

/// Splits a range into pieces and calls a function on each piece. All threads take part, including
/// the caller's. Only one thread may use a pool at a time.
class ThreadPool {
public:
  /// Computes the piece [lo, hi) on thread `thread` (0 is the caller's).
  using Piece = void (*)(void *context, int thread, int64_t lo, int64_t hi);

  /// Starts the threads. Fails if the system cannot start one of them. With `dedicated`, idle
  /// threads spin for about 50 us before they sleep.
  ThreadPool(int threads, bool dedicated);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int threads() const { return int(workers.size()) + 1; }

  /// Splits [0, count) into pieces of `grain` elements and calls piece(context, thread, lo, hi) for
  /// each. The last piece may be shorter. Returns when all pieces are done. Rethrows the first
  /// exception of a piece.
  void run(Piece piece, void *context, int64_t count, int64_t grain);

private:
  void work(int thread);
  void serve(int thread);
  void stop();
  uint32_t awaitGeneration(uint32_t seen);

  Piece piece = nullptr;
  void *context = nullptr;
  int64_t count = 0, grain = 1;
  int spins;
  bool stopping = false;
  std::mutex errorMutex;
  std::exception_ptr error;
  alignas(64) std::atomic<uint32_t> generation{0};
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<int> pending{0};
  std::vector<std::thread> workers;
};

/// Pauses a spinning thread briefly.
inline void spinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace psrt

#endif
