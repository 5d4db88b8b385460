// A queue and its thread.
#include "runtime/comm/process/Background.h"
#include <algorithm>

namespace psrt {

Background::~Background() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void Background::start(ProcessOp &op, int64_t token) {
  std::lock_guard<std::mutex> lock(mutex);
  if (failure)
    std::rethrow_exception(failure);
  if (!thread.joinable())
    thread = std::thread([this] { serve(); });
  queue.push_back({&op, token});
  changed.notify_all();
}

/// Runs the first of the queue, unless it is running or there is none.
bool Background::runNext(std::unique_lock<std::mutex> &lock) {
  if (running || queue.empty() || failure)
    return false;
  running = true;
  ProcessOp *op = queue.front().op;
  lock.unlock();
  std::exception_ptr thrown;
  try {
    op->run(transport);
  } catch (...) {
    thrown = std::current_exception();
  }
  lock.lock();
  running = false;
  failure = thrown;
  queue.pop_front();
  changed.notify_all();
  return true;
}

void Background::serve() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping)
    if (!runNext(lock))
      changed.wait(lock);
}

template <typename Over> void Background::help(Over over) {
  std::unique_lock<std::mutex> lock(mutex);
  while (!failure && !over())
    if (!runNext(lock))
      changed.wait(lock);
  if (failure)
    std::rethrow_exception(failure);
}

void Background::wait(int64_t token) {
  help([&] {
    return std::none_of(queue.begin(), queue.end(),
                        [&](const Started &started) { return started.token == token; });
  });
}

void Background::drain() {
  help([&] { return queue.empty(); });
}

} // namespace psrt
