// Implements a queue and its thread.
#include "runtime/comm/process/AsyncQueue.h"
#include <algorithm>
#include <chrono>
#include <utility>

namespace psrt {

static double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

AsyncQueue::~AsyncQueue() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void AsyncQueue::start(ProcessOp &op, int64_t token, const Bound &bound) {
  std::lock_guard<std::mutex> lock(mutex);
  if (failure)
    std::rethrow_exception(failure);
  if (!thread.joinable())
    thread = std::thread([this] { serve(); });
  queue.push_back({&op, token, &bound});
  changed.notify_all();
}

/// Runs the first queued operation, and returns true. Returns false if an operation is already
/// running, the queue is empty, or an operation has failed.
bool AsyncQueue::runNext(std::unique_lock<std::mutex> &lock) {
  if (running || queue.empty() || failure)
    return false;
  running = true;
  AsyncCollective started = queue.front();
  lock.unlock();
  double start = secondsNow();
  std::exception_ptr thrown;
  try {
    started.op->run(transport);
  } catch (...) {
    thrown = std::current_exception();
  }
  double end = secondsNow();
  lock.lock();
  if (isTraced)
    times.push_back({started.bound, start, end});
  running = false;
  failure = thrown;
  queue.pop_front();
  changed.notify_all();
  return true;
}

void AsyncQueue::serve() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping)
    if (!runNext(lock))
      changed.wait(lock);
}

template <typename IsDone> void AsyncQueue::runUntil(IsDone isDone) {
  std::unique_lock<std::mutex> lock(mutex);
  while (!failure && !isDone())
    if (!runNext(lock))
      changed.wait(lock);
  if (failure)
    std::rethrow_exception(failure);
}

void AsyncQueue::wait(int64_t token) {
  runUntil([&] {
    return std::none_of(queue.begin(), queue.end(),
                        [&](const AsyncCollective &started) { return started.token == token; });
  });
}

std::vector<AsyncTimes> AsyncQueue::takeTimes() {
  std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(times, {});
}

void AsyncQueue::drain() {
  runUntil([&] { return queue.empty(); });
}

} // namespace psrt
