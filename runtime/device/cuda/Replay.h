// Defines how kernels run on a machine without a GPU. The same kernel bodies are compiled for the
// host into a shared object ("replay image"), which the fake driver loads instead of PTX. One
// operating-system thread runs a block; the block's threads are fibers that switch at barriers.
//
// A replay image exports for each kernel:
// - `void NAME(void **parameters)`, where parameters[i] points to the value of parameter i, as in
//   cuLaunchKernel.
// - `const uint32_t NAME_parameters[]` = {number of parameters, bytes of the first, bytes of the
//   second, ...}. Launches need the sizes to copy the parameters; a real driver reads the sizes
//   from PTX.
//
// If a kernel uses thread indices or barriers, the image also exports the pointer `const
// PsrtReplayHooks *psrt_replay_hooks`, which the driver sets before the first launch. A kernel's
// shared memory is `thread_local` in the image, because one operating-system thread runs all blocks
// of a stream. Kernels do not modify their parameters.
#ifndef PSRT_DEVICE_CUDA_REPLAY_H
#define PSRT_DEVICE_CUDA_REPLAY_H

#include <cstdint>

extern "C" {
/// Functions that a kernel's body calls. Grids and blocks have one dim.
struct PsrtReplayHooks {
  uint32_t (*threadIndex)();
  uint32_t (*blockIndex)();
  uint32_t (*blockSize)();
  uint32_t (*gridSize)();
  /// Waits until all threads of the block arrive. Fails if some threads of the block have ended.
  void (*barrier)();
  /// Returns the `value` of another thread of the warp of 32 threads: the thread whose index is
  /// this thread's index xor `mask`. All existing threads of the warp must call this function.
  uint32_t (*shuffleXor)(uint32_t value, uint32_t mask);
  /// Returns the block's dynamic shared memory, 128-byte aligned.
  void *(*dynamicShared)();
};
}

#endif
