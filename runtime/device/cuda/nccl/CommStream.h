// Defines a stream in which communication of one rank runs in order: the rank's own stream, or the
// stream of a queue.
#ifndef PSRT_DEVICE_CUDA_NCCL_COMMSTREAM_H
#define PSRT_DEVICE_CUDA_NCCL_COMMSTREAM_H

#include "runtime/device/cuda/CudaDevice.h"
#include <deque>

namespace psrt::nccl {

/// A stream that tracks which of its operations the GPU has completed. After each operation, a copy
/// writes the operation's number plus 1 to host memory. CUDA graphs also capture this copy.
class CommStream {
public:
  /// `own` is the rank's stream; if it is null, a new stream is created.
  CommStream(std::string name, const cuda::GpuRef &gpu, const cuda::StreamRef &own);
  const std::string &getName() const { return name; }
  const cuda::Stream &getStream() const { return *stream; }
  bool isSeparate() const { return ownsStream; }

  /// Requests `bytes` of scratch. All operations share the scratch, because they run one after
  /// another. Must be called before reserve().
  void needScratch(int64_t bytes) { scratchBytes = std::max(scratchBytes, bytes); }
  void reserve();
  cuda::CUdeviceptr getScratch() const { return scratches.back().get(); }

  /// Adds an operation, which `text` describes. Returns its number.
  int64_t add(std::string text);
  /// Enqueues the copy that reports operation `number` as completed.
  void recordPosition(int64_t number);
  /// Returns true if operations have completed since the last call.
  bool hasMoved();
  /// Returns the progress as text, e.g. "in queue dp, operation 2 of 7 completed last (...); the
  /// next is ...".
  std::string describe() const;

private:
  std::string name;
  cuda::GpuRef gpu;
  cuda::StreamRef stream;
  bool ownsStream;
  int64_t scratchBytes = 0;
  /// Scratch allocations in order of size. New operations use the last one. Captured graphs may use
  /// the others.
  std::deque<cuda::DeviceMemory> scratches;
  std::vector<std::string> texts;
  std::unique_ptr<cuda::DeviceMemory> numbers; ///< the numbers 1, 2, 3, ..., which the copies read
  cuda::PinnedMemory position; ///< number of the last completed operation, plus 1; or 0
  int64_t seen = 0;
};

} // namespace psrt::nccl

#endif
