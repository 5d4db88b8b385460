// Implements the barrier: threads spin for a while, then sleep until the last member increments
// `generation`.
#include "runtime/comm/local/Barrier.h"
#include "runtime/core/Status.h"

namespace psrt {

void Barrier::arrive() {
  uint32_t seen = generation.load();
  if (state.aborted.load())
    throw Aborted();
  if (arrived.fetch_add(1) == members - 1) {
    arrived.store(0);
    generation.fetch_add(1);
    generation.notify_all();
    return;
  }
  for (int i = 0; i < spins && generation.load() == seen; ++i)
    pauseThread();
  if (generation.load() == seen) {
    CountedWait counted(state);
    while (generation.load() == seen)
      generation.wait(seen);
  }
  if (state.aborted.load())
    throw Aborted();
}

void Barrier::wake() {
  generation.fetch_add(1);
  generation.notify_all();
}

} // namespace psrt
