// Builds the kernels of the hand-written program as a replay image (runtime/device/cuda/Replay.h),
// for ranks with PSRT_TINY_ROWS rows per micro-batch.
#include "runtime/conformance/TinyProgram.cpp"

/// Runs a launch with a single thread. The parameters are six buffers and the scalars.
static void launch(psrt::Kernel kernel, void **parameters, int64_t rows) {
  void *buffers[6];
  for (int i = 0; i < 6; ++i)
    buffers[i] = *static_cast<void **>(parameters[i]);
  kernel(buffers, *static_cast<const int64_t **>(parameters[6]), 0, rows);
#ifdef PSRT_TINY_WRONG
  if (kernel == forward)
    static_cast<float *>(buffers[3])[1] *= 1.01f;
#endif
}

#define PSRT_REPLAY(name, rows)                                                                    \
  extern "C" {                                                                                     \
  extern const uint32_t name##_parameters[] = {7, 8, 8, 8, 8, 8, 8, 8};                            \
  void replay_##name(void **parameters) __asm__(#name);                                            \
  void replay_##name(void **parameters) { launch(name, parameters, rows); }                        \
  }
PSRT_REPLAY(forward, PSRT_TINY_ROWS)
PSRT_REPLAY(update, tinyWidth)
PSRT_REPLAY(evaluate, PSRT_TINY_ROWS)
