// Measures how long work takes on a GPU.
#ifndef PSRT_DEVICE_CUDA_ALGORITHMTIMER_H
#define PSRT_DEVICE_CUDA_ALGORITHMTIMER_H

#include "runtime/device/cuda/Gpu.h"
#include <functional>
#include <vector>

namespace psrt::cuda {

/// Measures the time of the work that a callback enqueues on a stream. A burst consists of a few
/// consecutive calls. The result is the time per call in the faster of two bursts.
class BurstTimer {
public:
  /// Before each burst, the kWorkspaceBytes bytes at `filler` are written `fillings` times. While
  /// the GPU executes these writes, the host enqueues the timed work. The measured time therefore
  /// does not include launch overhead.
  BurstTimer(const Stream &stream, CUdeviceptr filler, int fillings = 4);
  /// Returns the milliseconds per call of `enqueue`. Returns infinity if `enqueue` returns false,
  /// i.e. the operation is not supported.
  double measure(const std::function<bool()> &enqueue) const;

private:
  double measureBurst(const std::function<bool()> &enqueue, int repeats) const;

  const Stream &stream;
  CUdeviceptr filler;
  int fillings;
  Event begin, end;
};

/// Provides a separate stream and separate memory, so that measuring does not disturb the program.
class AlgorithmTimer {
public:
  /// Allocates memory for each of `sizes` (in bytes) and a workspace. Allocates nothing if the GPU
  /// has too little free memory.
  AlgorithmTimer(const GpuRef &gpu, const std::vector<size_t> &sizes);
  ~AlgorithmTimer();
  AlgorithmTimer(const AlgorithmTimer &) = delete;
  AlgorithmTimer &operator=(const AlgorithmTimer &) = delete;

  bool hasMemory() const { return memory != nullptr; }
  void *at(size_t i) const { return reinterpret_cast<void *>(memory->get() + offsets[i]); }
  /// Returns a workspace of kWorkspaceBytes.
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
