// The scalars of a bound entry on the GPU: instructions read them there, so that what is enqueued,
// or recorded, is the same in every step.
#ifndef PSRT_DEVICE_CUDA_SCALARMIRROR_H
#define PSRT_DEVICE_CUDA_SCALARMIRROR_H

#include "runtime/device/cuda/Gpu.h"

namespace psrt::cuda {

/// Two pinned buffers take turns: the host waits only where it is two runs ahead.
class ScalarMirror {
public:
  ScalarMirror(StreamRef stream, size_t count);
  const int64_t *seen() const { return reinterpret_cast<const int64_t *>(memory.get()); }
  size_t size() const { return memory.size(); }
  /// Enqueues that what the host has at `scalars` now is seen by what follows.
  void upload(const int64_t *scalars);

private:
  struct Turn {
    Turn(const GpuRef &gpu, size_t bytes) : pinned(gpu, bytes), over(gpu) {}
    PinnedMemory pinned;
    Event over;
    bool isCopied = false;
  };
  StreamRef stream;
  DeviceMemory memory;
  Turn turns[2];
  int next = 0;
};

} // namespace psrt::cuda

#endif
