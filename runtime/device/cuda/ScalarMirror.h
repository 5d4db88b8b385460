// Keeps a copy of the scalars of an entry (Executor::BoundEntry) on the GPU. Instructions read the
// scalars from this copy, so that the enqueued or captured operations are the same in every step.
#ifndef PSRT_DEVICE_CUDA_SCALARMIRROR_H
#define PSRT_DEVICE_CUDA_SCALARMIRROR_H

#include "runtime/device/cuda/Gpu.h"

namespace psrt::cuda {

/// Alternates between two pinned buffers, so the host waits only if it is two runs ahead of the
/// GPU.
class ScalarMirror {
public:
  ScalarMirror(StreamRef stream, size_t count);
  /// Returns the address of the copy on the GPU.
  const int64_t *seen() const { return reinterpret_cast<const int64_t *>(memory.get()); }
  size_t size() const { return memory.size(); }
  /// Enqueues a copy of the host's current `scalars`, which later instructions read.
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
