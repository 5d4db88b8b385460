// Runs the asynchronous operations of one queue in order, on the queue's own thread or on a waiting
// thread.
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

  /// Starts an operation. Every rank starts the same operations in the same order. Throws an
  /// earlier failure. `bound` labels recorded times.
  void start(ProcessOp &op, int64_t token, const Bound &bound);
  /// Waits for all operations of the token. Throws their failure.
  void wait(int64_t token);
  /// Waits for all operations. Throws their failure.
  void drain();
  /// Record times, as in RankComm.
  void startTrace() { isTraced = true; }
  std::vector<AsyncTimes> takeTimes();

private:
  struct AsyncCollective {
    ProcessOp *op;
    int64_t token;
    const Bound *bound;
  };
  template <typename Over> void help(Over over);
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
