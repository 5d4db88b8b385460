// Runs the ranks of this process. The first rank runs on the caller's thread. Each other rank runs
// on a thread of its own, which sleeps between calls.
#ifndef PSRT_BOOTSTRAP_RANKTHREADS_H
#define PSRT_BOOTSTRAP_RANKTHREADS_H

#include "runtime/core/Status.h"
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace psrt {

/// The ranks of this process, and the threads of all ranks except the first.
class RankThreads {
public:
  /// Starts the threads; ranks are numbered from `first`. Fails if a thread cannot be started.
  /// `onFailure` is called on the thread of a failed rank, or on the thread that calls `fail`.
  /// `onFailure` must wake all ranks that wait for other ranks, so that their waits throw Aborted.
  RankThreads(int ranks, std::function<void()> onFailure, int first = 0);
  ~RankThreads();
  RankThreads(const RankThreads &) = delete;
  RankThreads &operator=(const RankThreads &) = delete;

  int size() const { return ranks; }
  /// Returns the number of ranks that are still running the body of `run`.
  int countRunning() const { return running.load(); }
  /// Records a failure and calls `onFailure`. The current call of `run` then throws the failure
  /// that was recorded first. Thread-safe.
  void fail(Status status);
  /// Calls body(rank) on every rank, and waits for all ranks. Throws the first error, with the rank
  /// that failed.
  template <typename Body> void run(Body &&body) {
    start([](void *context,
             int rank) { (*static_cast<std::remove_reference_t<Body> *>(context))(rank); },
          const_cast<void *>(static_cast<const void *>(&body)));
  }

private:
  using Function = void (*)(void *context, int rank);
  void start(Function function, void *context);
  void serve(int rank);
  void stop();
  void call(int rank);
  void record(int rank, Status status);

  int ranks, first;
  std::function<void()> onFailure;
  Function function = nullptr;
  void *context = nullptr;
  bool stopping = false;
  std::mutex mutex;
  Status firstFailure;
  std::atomic<uint32_t> generation{0};
  std::atomic<int> pending{0};
  std::atomic<int> running{0};
  std::vector<std::thread> threads;
};

} // namespace psrt

#endif
