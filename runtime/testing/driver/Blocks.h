// Runs kernels: blocks run one after another on the stream's thread. A block's threads are fibers
// that switch when they wait for each other.
#ifndef PSRT_TESTING_DRIVER_BLOCKS_H
#define PSRT_TESTING_DRIVER_BLOCKS_H

#include "runtime/device/cuda/Replay.h"
#include "runtime/testing/driver/Fibers.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace psrt::fake {

/// A kernel and its launch parameters.
struct Launch {
  std::string name;
  void (*body)(void **parameters) = nullptr;
  void **parameters = nullptr;
  uint32_t grid = 1, block = 1, sharedBytes = 0;
};

/// Runs all blocks on the calling thread. Returns false if threads of a block wait for threads that
/// never arrive, after printing the reason to stderr.
bool runBlocks(const Launch &launch);

/// Hooks that images receive as psrt_replay_hooks.
extern const PsrtReplayHooks replayHooks;

/// Runs blocks on one operating-system thread, with one fiber per thread of a block.
class BlockRunner {
public:
  bool run(const Launch &launch);

  uint32_t threadIndex() const { return current; }
  uint32_t blockIndex() const { return block; }
  const Launch &launched() const { return *launch; }
  void *shared() { return sharedBegin; }
  void barrier();
  uint32_t shuffle(uint32_t value, uint32_t mask);

private:
  enum class State : uint8_t { Fresh, Runs, AtBarrier, AtShuffle, Ended };
  struct Thread {
    State state = State::Fresh;
    uint32_t value = 0, mask = 0; ///< arguments of a shuffle; `value` becomes the result
    Fiber *fiber = nullptr;       ///< fiber that holds the suspended thread
  };
  static constexpr uint32_t warpSize = 32;

  static void fiberMain();
  bool runBlock();
  void takeTurns();
  void suspend();
  void wake(uint32_t thread);
  void finishShuffle(uint32_t first, uint32_t end);
  uint32_t warpEnd(uint32_t first) const;
  void explain() const;
  void prepare(const Launch &launch);
  Fiber &idleFiber();

  const Launch *launch = nullptr;
  uint32_t block = 0, current = 0, nextFresh = 0, ended = 0, atBarrier = 0;
  std::vector<Thread> threads;
  std::vector<uint32_t> atShuffle; ///< by warp
  std::vector<uint32_t> ready;     ///< threads to resume: a queue that starts at readyBegin
  size_t readyBegin = 0;
  bool mixedMasks = false;
  Fiber main;
  Fiber *running = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber *> idle;
  std::vector<char> sharedMemory;
  char *sharedBegin = nullptr;
};

} // namespace psrt::fake

#endif
