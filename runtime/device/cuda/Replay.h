// How kernels run on a machine without a GPU: the same bodies, compiled for the host, in a shared
// object ("replay image") that the fake driver loads in place of PTX. One operating-system
// thread runs a block; the block's threads are fibers that take turns at barriers.
//
// A replay image exports each kernel as `void NAME(void **parameters)` (parameters[i] points to the
// value of parameter i, as in cuLaunchKernel), beside it `const uint32_t NAME_parameters[]` = {how
// many parameters, bytes of the first, bytes of the second, ...}, which a launch needs to copy them
// (the driver reads that from PTX), and, where a kernel asks who it is or waits for others, a
// pointer `const PsrtReplayHooks *psrt_replay_hooks` that the driver sets before the first launch.
// Shared memory of a kernel is `thread_local` in the image: one thread runs the blocks of a stream.
// Kernels leave their parameters as they are.
#ifndef PSRT_DEVICE_CUDA_REPLAY_H
#define PSRT_DEVICE_CUDA_REPLAY_H

#include <cstdint>

extern "C" {
/// What a kernel's body asks of the machine. Grids and blocks have one dim.
struct PsrtReplayHooks {
  uint32_t (*threadIndex)();
  uint32_t (*blockIndex)();
  uint32_t (*blockSize)();
  uint32_t (*gridSize)();
  /// All threads of the block meet. A block in which some threads have ended fails.
  void (*barrier)();
  /// The value of the thread whose index within the warp of 32 is this one's xor `mask`; all
  /// threads of the warp that exist call it.
  uint32_t (*shuffleXor)(uint32_t value, uint32_t mask);
  /// Dynamic shared memory of the block, 128-byte aligned.
  void *(*dynamicShared)();
};
}

#endif
