// Defines the kernels of the fake driver's tests, compiled as a replay image.
#include "runtime/device/cuda/Replay.h"
#include <chrono>
#include <thread>

extern "C" {

const PsrtReplayHooks *psrt_replay_hooks;

#define PARAMETERS(kernel, ...) extern const uint32_t kernel##_parameters[] = {__VA_ARGS__};

} // extern "C"

static uint32_t thread() { return psrt_replay_hooks->threadIndex(); }
static uint32_t block() { return psrt_replay_hooks->blockIndex(); }
static uint32_t threads() { return psrt_replay_hooks->blockSize(); }
static uint32_t blocks() { return psrt_replay_hooks->gridSize(); }
static void barrier() { psrt_replay_hooks->barrier(); }
static uint32_t shuffle(uint32_t value, uint32_t mask) {
  return psrt_replay_hooks->shuffleXor(value, mask);
}

/// Returns the value of parameter i.
template <typename T> static T parameter(void **parameters, int i) {
  return *static_cast<T *>(parameters[i]);
}

extern "C" {

/// fill(int *to, int value, int64_t n): to[i] = value + i.
PARAMETERS(fill, 3, 8, 4, 8)
void fill(void **parameters) {
  int *to = parameter<int *>(parameters, 0);
  int64_t n = parameter<int64_t>(parameters, 2);
  for (int64_t i = block() * threads() + thread(); i < n; i += blocks() * threads())
    to[i] = parameter<int>(parameters, 1) + int(i);
}

/// A kernel with one struct parameter, passed by value.
struct Scale {
  int *to;
  int factor;
  int64_t n;
};
PARAMETERS(scale, 1, sizeof(Scale))
void scale(void **parameters) {
  Scale scale = parameter<Scale>(parameters, 0);
  for (int64_t i = thread(); i < scale.n; i += threads())
    scale.to[i] *= scale.factor;
}

/// sum(const int *from, int *to, int64_t n): to[block] = the sum of the block's n elements. Uses
/// shuffles within warps and a barrier between them.
PARAMETERS(sum, 3, 8, 8, 8)
void sum(void **parameters) {
  static thread_local int perWarp[32];
  const int *from = parameter<const int *>(parameters, 0);
  int64_t n = parameter<int64_t>(parameters, 2);
  int own = 0;
  for (int64_t i = thread(); i < n; i += threads())
    own += from[block() * n + i];
  for (uint32_t mask = 16; mask > 0; mask /= 2)
    own += int(shuffle(uint32_t(own), mask));
  if (thread() % 32 == 0)
    perWarp[thread() / 32] = own;
  barrier();
  int all = 0;
  for (uint32_t warp = 0; warp < threads() / 32; ++warp)
    all += perWarp[warp];
  barrier();
  if (thread() == 0)
    parameter<int *>(parameters, 1)[block()] = all;
}

/// reverse(int *values): reverses the block's elements through dynamic shared memory.
PARAMETERS(reverse, 1, 8)
void reverse(void **parameters) {
  int *values = parameter<int *>(parameters, 0) + block() * threads();
  int *shared = static_cast<int *>(psrt_replay_hooks->dynamicShared());
  shared[thread()] = values[thread()];
  barrier();
  values[thread()] = shared[threads() - 1 - thread()];
}

/// exchange(int *to, int mask): to[thread] = index of the thread whose value the shuffle returned.
PARAMETERS(exchange, 2, 8, 4)
void exchange(void **parameters) {
  uint32_t mask = parameter<uint32_t>(parameters, 1);
  parameter<int *>(parameters, 0)[thread()] = int(shuffle(thread(), mask));
}

/// endEarly(): thread 3 of block 1 ends before the barrier at which the other threads wait.
PARAMETERS(endEarly, 0)
void endEarly(void **) {
  if (block() == 1 && thread() == 3)
    return;
  barrier();
}

/// mixedMeetings(): the first half of the block waits at a barrier, the second half at a shuffle.
PARAMETERS(mixedMeetings, 0)
void mixedMeetings(void **) {
  if (thread() < threads() / 2)
    barrier();
  else
    shuffle(0, 1);
}

PARAMETERS(mixedMasks, 0)
void mixedMasks(void **) { shuffle(0, thread() % 2 + 1); }

/// later(int *at, int value): at[0] = value, after a delay.
PARAMETERS(later, 2, 8, 4)
void later(void **parameters) {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  *parameter<int *>(parameters, 0) = parameter<int>(parameters, 1);
}

/// add(const int *from, int *to): to[0] += from[0].
PARAMETERS(add, 2, 8, 8)
void add(void **parameters) {
  *parameter<int *>(parameters, 1) += *parameter<const int *>(parameters, 0);
}

/// counted(int *to): to[0] = number of calls since the image was loaded.
PARAMETERS(counted, 1, 8)
void counted(void **parameters) {
  static int calls = 0;
  *parameter<int *>(parameters, 0) = ++calls;
}

/// A kernel without an array of parameter sizes.
void undescribed(void **) {}

} // extern "C"
