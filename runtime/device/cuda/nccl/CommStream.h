// What one rank communicates in one order: on its own stream among its instructions, or on that of
// a queue beside them.
#ifndef PSRT_DEVICE_CUDA_NCCL_COMMSTREAM_H
#define PSRT_DEVICE_CUDA_NCCL_COMMSTREAM_H

#include "runtime/device/cuda/CudaDevice.h"
#include <deque>

namespace psrt::nccl {

/// Knows which of its operations the GPU has finished: a number of the host's memory that a copy
/// after each of them sets, also where it was recorded.
class CommStream {
public:
  /// `own`: the rank's stream, or null for one of its own.
  CommStream(std::string name, const cuda::GpuRef &gpu, cuda::StreamRef own);
  const std::string &getName() const { return name; }
  const cuda::Stream &getStream() const { return *stream; }
  bool isBeside() const { return isOwn; }

  /// Memory for one operation at a time; asked for before `reserve`.
  void needScratch(int64_t bytes) { scratchBytes = std::max(scratchBytes, bytes); }
  void reserve();
  cuda::CUdeviceptr getScratch() const { return scratches.back().get(); }

  /// The number of the next operation; `text` says what it is.
  int64_t add(std::string text);
  /// Enqueues that the operation of that number is over.
  void notePosition(int64_t number);
  /// Whether it has gone on since this was asked last.
  bool hasMoved();
  /// "2 of 7 of queue dp; the last that ended is ..."
  std::string describe() const;

private:
  std::string name;
  cuda::GpuRef gpu;
  cuda::StreamRef stream;
  bool isOwn;
  int64_t scratchBytes = 0;
  std::deque<cuda::DeviceMemory> scratches; ///< the last one is the largest; recordings use others
  std::vector<std::string> texts;
  std::unique_ptr<cuda::DeviceMemory> numbers; ///< 0, 1, 2...
  cuda::PinnedMemory position;                 ///< a number more than the last operation's
  int64_t seen = 0;
};

} // namespace psrt::nccl

#endif
