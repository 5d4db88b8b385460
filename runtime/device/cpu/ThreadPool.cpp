// Implements the dispatch of the thread pool.
#include "runtime/device/cpu/ThreadPool.h"
#include "runtime/core/SignalShield.h"
#include "runtime/core/Status.h"
#include <algorithm>
#include <system_error>
#include <utility>

namespace psrt {

ThreadPool::ThreadPool(int threads, bool dedicated) : spins(dedicated ? 4000 : 16) {
  SignalShield shield;
  for (int i = 1; i < threads; ++i)
    try {
      workers.emplace_back([this, i] { serve(i); });
    } catch (const std::system_error &error) {
      stop();
      PSRT_FAIL(Failed,
                "cannot start thread %d of %d of a rank: %s; use fewer threads (--threads), or "
                "raise the limits on threads and memory",
                i, threads, error.what());
    }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping = true;
  generation.fetch_add(1, std::memory_order_release);
  generation.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::work(int thread) {
  while (true) {
    int64_t lo = next.fetch_add(grain, std::memory_order_relaxed);
    if (lo >= count)
      return;
    piece(context, thread, lo, std::min(lo + grain, count));
  }
}

uint32_t ThreadPool::awaitGeneration(uint32_t seen) {
  for (int i = 0; i < spins; ++i) {
    uint32_t now = generation.load(std::memory_order_acquire);
    if (now != seen)
      return now;
    spinPause();
  }
  generation.wait(seen, std::memory_order_acquire);
  return generation.load(std::memory_order_acquire);
}

void ThreadPool::serve(int thread) {
  uint32_t seen = 0;
  while (true) {
    seen = awaitGeneration(seen);
    if (stopping)
      return;
    try {
      work(thread);
    } catch (...) {
      std::lock_guard<std::mutex> lock(errorMutex);
      if (!error)
        error = std::current_exception();
    }
    if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1)
      pending.notify_one();
  }
}

void ThreadPool::run(Piece newPiece, void *newContext, int64_t newCount, int64_t newGrain) {
  if (workers.empty() || newCount <= newGrain) {
    for (int64_t lo = 0; lo < newCount; lo += newGrain)
      newPiece(newContext, 0, lo, std::min(lo + newGrain, newCount));
    return;
  }
  piece = newPiece;
  context = newContext;
  count = newCount;
  grain = newGrain;
  next.store(0, std::memory_order_relaxed);
  pending.store(int(workers.size()), std::memory_order_relaxed);
  generation.fetch_add(1, std::memory_order_release);
  generation.notify_all();
  std::exception_ptr own;
  try {
    work(0);
  } catch (...) {
    own = std::current_exception();
  }
  for (int left, i = 0; (left = pending.load(std::memory_order_acquire)) != 0; ++i)
    i < 1000000 && spins > 16 ? spinPause() : pending.wait(left, std::memory_order_acquire);
  if (!own)
    own = std::exchange(error, nullptr);
  error = nullptr;
  if (own)
    std::rethrow_exception(own);
}

} // namespace psrt
