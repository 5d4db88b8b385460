// Starts and stops rank threads, and records their first failure.
#include "runtime/bootstrap/RankThreads.h"
#include "runtime/core/SignalShield.h"
#include <system_error>

namespace psrt {

RankThreads::RankThreads(int ranks, std::function<void()> onFailure, int first)
    : ranks(ranks), first(first), onFailure(std::move(onFailure)) {
  SignalShield shield;
  for (int rank = 1; rank < ranks; ++rank)
    try {
      threads.emplace_back([this, rank] { serve(rank); });
    } catch (const std::system_error &error) {
      stop();
      PSRT_FAIL(Failed,
                "cannot start the thread of rank %d of %d: %s; raise the limits on threads and "
                "memory, or compile for fewer ranks",
                rank, ranks, error.what());
    }
}

RankThreads::~RankThreads() { stop(); }

void RankThreads::stop() {
  stopping = true;
  generation.fetch_add(1);
  generation.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

void RankThreads::fail(Status status) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (firstFailure.ok())
      firstFailure = std::move(status);
  }
  onFailure();
}

void RankThreads::record(int rank, Status status) {
  if (status.rank < 0)
    status.rank = first + rank;
  fail(std::move(status));
}

void RankThreads::call(int rank) {
  Status status;
  struct Leaving {
    std::atomic<int> &running;
    ~Leaving() { --running; }
  } leaving{running};
  try {
    function(context, first + rank);
    return;
  } catch (const Aborted &) {
    return; // the failed rank has recorded the reason
  } catch (const Error &error) {
    status = error.status;
  } catch (const std::exception &error) {
    status.code = StatusCode::Failed;
    status.message = error.what();
  } catch (...) {
    status.code = StatusCode::Failed;
    status.message = "unknown exception";
  }
  record(rank, std::move(status));
}

void RankThreads::serve(int rank) {
  uint32_t seen = 0;
  while (true) {
    generation.wait(seen);
    seen = generation.load();
    if (stopping)
      return;
    call(rank);
    if (pending.fetch_sub(1) == 1)
      pending.notify_one();
  }
}

void RankThreads::start(Function newFunction, void *newContext) {
  SignalShield shield; // the calling thread is also a rank
  function = newFunction;
  context = newContext;
  firstFailure = Status();
  pending = ranks - 1;
  running = ranks;
  if (ranks > 1) {
    generation.fetch_add(1);
    generation.notify_all();
  }
  call(0);
  while (int remaining = pending.load())
    pending.wait(remaining);
  if (!firstFailure.ok())
    throw Error(firstFailure);
}

} // namespace psrt
