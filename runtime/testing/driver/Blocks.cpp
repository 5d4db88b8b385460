// Schedules a block's threads and implements barriers and shuffles.
#include "runtime/testing/driver/Blocks.h"
#include "runtime/testing/driver/Codes.h"
#include <algorithm>
#include <array>
#include <cstring>

namespace psrt::fake {

/// The runner of this operating-system thread, while the thread runs blocks. A thread-local object
/// with a constructor would be too slow, since hooks are called very often.
static thread_local constinit BlockRunner *active __attribute__((tls_model("initial-exec"))) =
    nullptr;

bool runBlocks(const Launch &launch) {
  thread_local BlockRunner own;
  active = &own;
  return own.run(launch);
}

const PsrtReplayHooks replayHooks = {
    [] { return active->threadIndex(); },
    [] { return active->blockIndex(); },
    [] { return active->launched().block; },
    [] { return active->launched().grid; },
    [] { active->barrier(); },
    [](uint32_t value, uint32_t mask) { return active->shuffle(value, mask); },
    [] { return active->shared(); },
};

void BlockRunner::prepare(const Launch &newLaunch) {
  launch = &newLaunch;
  constexpr size_t alignment = 128;
  sharedMemory.resize(std::max(sharedMemory.size(), launch->sharedBytes + alignment));
  auto address = reinterpret_cast<uintptr_t>(sharedMemory.data());
  sharedBegin = sharedMemory.data() + (alignment - address % alignment) % alignment;
}

bool BlockRunner::run(const Launch &newLaunch) {
  prepare(newLaunch);
  for (block = 0; block < launch->grid; ++block)
    if (!runBlock()) {
      explain();
      idle.clear();
      for (const auto &fiber : fibers) {
        fiber->restart();
        idle.push_back(fiber.get());
      }
      return false;
    }
  return true;
}

/// Runs one block. Returns false if no thread can continue and some have not ended.
bool BlockRunner::runBlock() {
  std::memset(sharedBegin, 0xff, launch->sharedBytes); // shared memory is uninitialized
  threads.assign(launch->block, {});
  atShuffle.assign((launch->block + warpSize - 1) / warpSize, 0);
  ready.clear();
  readyBegin = 0;
  nextFresh = ended = atBarrier = 0;
  mixedMasks = false;
  running = &idleFiber();
  main.switchTo(*running);
  return ended == launch->block;
}

Fiber &BlockRunner::idleFiber() {
  if (idle.empty()) {
    fibers.push_back(std::make_unique<Fiber>(fiberMain));
    return *fibers.back();
  }
  Fiber *fiber = idle.back();
  idle.pop_back();
  return *fiber;
}

void BlockRunner::fiberMain() {
  while (true)
    active->takeTurns();
}

/// Runs one turn of a fiber that holds no thread of the block. If a suspended thread is ready, the
/// fiber becomes idle and switches to this thread. Otherwise, the fiber runs the next thread that
/// has not started. Without such a thread, the fiber becomes idle and switches to `main`.
void BlockRunner::takeTurns() {
  bool wakes = readyBegin < ready.size() && !mixedMasks;
  if (!wakes && nextFresh < launch->block && !mixedMasks) {
    current = nextFresh++;
    threads[current].state = State::Runs;
    launch->body(launch->parameters);
    threads[current].state = State::Ended;
    ++ended;
    return;
  }
  Fiber *self = running;
  idle.push_back(self);
  if (wakes) {
    current = ready[readyBegin++];
    running = threads[current].fiber;
    self->switchTo(*running);
  } else {
    self->switchTo(main);
  }
}

/// Suspends the current thread and resumes or starts another one.
void BlockRunner::suspend() {
  Fiber *self = running;
  threads[current].fiber = self;
  if (readyBegin < ready.size() && !mixedMasks) {
    current = ready[readyBegin++];
    running = threads[current].fiber;
  } else if (nextFresh < launch->block && !mixedMasks) {
    running = &idleFiber();
  } else {
    running = nullptr;
    self->switchTo(main); // never returns: nothing can wake this block
    return;
  }
  self->switchTo(*running);
}

void BlockRunner::wake(uint32_t thread) {
  threads[thread].state = State::Runs;
  if (thread != current)
    ready.push_back(thread);
}

void BlockRunner::barrier() {
  threads[current].state = State::AtBarrier;
  if (++atBarrier < launch->block)
    return suspend();
  atBarrier = 0;
  ready.clear();
  readyBegin = 0;
  for (uint32_t thread = 0; thread < launch->block; ++thread)
    wake(thread);
}

uint32_t BlockRunner::warpEnd(uint32_t first) const {
  return std::min(first + warpSize, launch->block);
}

uint32_t BlockRunner::shuffle(uint32_t value, uint32_t mask) {
  uint32_t self = current, first = self / warpSize * warpSize, end = warpEnd(first);
  threads[self].state = State::AtShuffle;
  threads[self].value = value;
  threads[self].mask = mask;
  if (++atShuffle[self / warpSize] < end - first)
    suspend();
  else
    finishShuffle(first, end);
  return threads[self].value;
}

/// Exchanges the values of the warp [first, end), whose threads have all arrived.
void BlockRunner::finishShuffle(uint32_t first, uint32_t end) {
  atShuffle[first / warpSize] = 0;
  if (readyBegin == ready.size()) {
    ready.clear();
    readyBegin = 0;
  }
  std::array<uint32_t, warpSize> values;
  for (uint32_t thread = first; thread < end; ++thread) {
    values[thread - first] = threads[thread].value;
    mixedMasks |= threads[thread].mask != threads[first].mask;
  }
  if (mixedMasks)
    return suspend();
  uint32_t mask = threads[first].mask;
  for (uint32_t thread = first; thread < end; ++thread) {
    uint32_t other = (thread - first) ^ mask;
    if (other < end - first)
      threads[thread].value = values[other];
    wake(thread);
  }
}

/// Reports which thread waits for which, or that shuffles have different masks.
void BlockRunner::explain() const {
  if (mixedMasks)
    return complain("kernel '%s', block %u: the threads of the warp of thread %u shuffle with "
                    "different masks",
                    launch->name.c_str(), block, current);
  auto waits = std::find_if(threads.begin(), threads.end(), [](const Thread &thread) {
    return thread.state == State::AtBarrier || thread.state == State::AtShuffle;
  });
  bool shuffle = waits->state == State::AtShuffle;
  uint32_t first = shuffle ? uint32_t(waits - threads.begin()) / warpSize * warpSize : 0;
  auto other = std::find_if(threads.begin() + first, threads.end(),
                            [&](const Thread &thread) { return thread.state != waits->state; });
  bool over = other->state == State::Ended;
  complain(
      "kernel '%s', block %u: thread %u waits at a %s that thread %u does not reach, because it %s",
      launch->name.c_str(), block, unsigned(waits - threads.begin()),
      shuffle ? "shuffle" : "barrier", unsigned(other - threads.begin()),
      over ? "has ended" : (shuffle ? "waits at a barrier" : "waits at a shuffle"));
}

} // namespace psrt::fake
