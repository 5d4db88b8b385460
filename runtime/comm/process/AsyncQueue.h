// Runs the asynchronous operations of one queue in order, on the queue's own thread or on a thread
// that waits for them.
#ifndef PSRT_COMM_PROCESS_ASYNCQUEUE_H
#define PSRT_COMM_PROCESS_ASYNCQUEUE_H

#include "runtime/comm/process/ProcessCollectives.h"
#include "runtime/core/Backend.h"
#include <deque>
#include <exception>

namespace psrt {

/// The operations of one queue.
class AsyncQueue {
public:
  explicit AsyncQueue(Transport &transport) : transport(transport) {}
  ~AsyncQueue();
  AsyncQueue(const AsyncQueue &) = delete;

  /// Appends an operation to the queue. All ranks must start the same operations in the same order.
  /// Throws if an earlier operation has failed. `bound` is the instruction that the recorded times
  /// refer to.
  void start(ProcessOp &op, int64_t token, const Bound &bound);
  /// Waits for all operations with the token. Throws if an operation has failed.
  void wait(int64_t token);
  /// Waits for all operations. Throws if an operation has failed.
  void drain();
  /// Record and return times, as in RankComm.
  void startTrace() { isTraced = true; }
  std::vector<AsyncTimes> takeTimes();

private:
  struct AsyncCollective {
    ProcessOp *op;
    int64_t token;
    const Bound *bound;
  };
  /// Runs queued operations on this thread, or waits for the queue's thread, until isDone().
  template <typename IsDone> void runUntil(IsDone isDone);
  bool runNext(std::unique_lock<std::mutex> &lock);
  void serve();

  Transport &transport;
  std::mutex mutex; ///< guards the members below
  std::condition_variable changed;
  std::deque<AsyncCollective> queue; ///< the first one may be running
  bool running = false, stopping = false, isTraced = false;
  std::vector<AsyncTimes> times;
  std::exception_ptr failure;
  std::thread thread;
};

} // namespace psrt

#endif
