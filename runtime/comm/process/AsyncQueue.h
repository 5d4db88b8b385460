// What was started in one queue: it runs one after the other in a thread of its own, or in that of
// whoever waits for it.
#ifndef PSRT_COMM_PROCESS_ASYNCQUEUE_H
#define PSRT_COMM_PROCESS_ASYNCQUEUE_H

#include "runtime/comm/process/ProcessCollectives.h"
#include "runtime/core/Backend.h"
#include <deque>
#include <exception>

namespace psrt {

class AsyncQueue {
public:
  explicit AsyncQueue(Transport &transport) : transport(transport) {}
  ~AsyncQueue();
  AsyncQueue(const AsyncQueue &) = delete;

  /// Every rank starts the same ones in the same order. Throws what failed before. `bound` is what
  /// times are told of.
  void start(ProcessOp &op, int64_t token, const Bound &bound);
  /// Returns when all that was started with the token is over; throws what failed.
  void wait(int64_t token);
  /// The same for all that was started.
  void drain();
  /// As those of RankComm.
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
  std::mutex mutex; ///< of what follows
  std::condition_variable changed;
  std::deque<AsyncCollective> queue; ///< the first one may be running
  bool running = false, stopping = false, isTraced = false;
  std::vector<AsyncTimes> times;
  std::exception_ptr failure;
  std::thread thread;
};

} // namespace psrt

#endif
