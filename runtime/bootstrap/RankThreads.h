// The ranks of this process as threads: parked between calls, all called together. A single rank is
// the caller's thread.
#ifndef PSRT_BOOTSTRAP_RANKTHREADS_H
#define PSRT_BOOTSTRAP_RANKTHREADS_H

#include "runtime/core/Status.h"
#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace psrt {

class RankThreads {
public:
  /// Fails where the system refuses a thread. `onFailure` runs at once in the thread of a rank that
  /// fails: it wakes the others out of their waits.
  /// The ranks are numbered from `first`.
  RankThreads(int ranks, std::function<void()> onFailure, int first = 0);
  ~RankThreads();
  RankThreads(const RankThreads &) = delete;
  RankThreads &operator=(const RankThreads &) = delete;

  int size() const { return ranks; }
  /// How many ranks have not returned from the body that `run` calls.
  int countRunning() const { return running.load(); }
  /// Ends the call of `run` that is under way with this status. Any thread may call it.
  void fail(Status status);
  /// Calls body(rank) on every rank and waits for all. Throws the first error, its rank filled in.
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
