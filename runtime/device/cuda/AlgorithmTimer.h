// How long something takes on a GPU.
#ifndef PSRT_DEVICE_CUDA_ALGORITHMTIMER_H
#define PSRT_DEVICE_CUDA_ALGORITHMTIMER_H

#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <vector>

namespace psrt::cuda {

/// Times of what is enqueued on a stream.
class BurstTimer {
public:
  /// `filler`: kWorkspaceBytes, which are written so many times before each burst: while the GPU is
  /// busy with that, the host enqueues what is timed, so that launches are not.
  BurstTimer(const Stream &stream, CUdeviceptr filler, int fillings = 4);
  /// Milliseconds of what `enqueue` puts into the stream; infinity where it says false: not built.
  double measure(const std::function<bool()> &enqueue) const;

private:
  double measureBurst(const std::function<bool()> &enqueue, int repeats) const;

  const Stream &stream;
  CUdeviceptr filler;
  int fillings;
  Event begin, end;
};

/// A stream and memory of its own, in which nothing of the program is disturbed.
class AlgorithmTimer {
public:
  /// Memory for each of `sizes`, in bytes, and to work in; none where the GPU has too little left.
  AlgorithmTimer(const GpuRef &gpu, const std::vector<size_t> &sizes);
  ~AlgorithmTimer();
  AlgorithmTimer(const AlgorithmTimer &) = delete;
  AlgorithmTimer &operator=(const AlgorithmTimer &) = delete;

  bool hasMemory() const { return memory != nullptr; }
  void *at(size_t i) const { return reinterpret_cast<void *>(memory->get() + offsets[i]); }
  /// kWorkspaceBytes of it.
  void *getWorkspace() const { return at(offsets.size() - 1); }
  const Stream &getStream() const { return stream; }
  double measure(const std::function<bool()> &enqueue) const {
    return BurstTimer(stream, reinterpret_cast<CUdeviceptr>(getWorkspace())).measure(enqueue);
  }

private:
  GpuRef gpu;
  Stream stream;
  std::vector<size_t> offsets;
  std::unique_ptr<DeviceMemory> memory;
};

} // namespace psrt::cuda

#endif
