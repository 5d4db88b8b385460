// One rank's memory on a GPU: one allocation, reached by copies in the rank's stream.
#ifndef PSRT_DEVICE_CUDA_CUDAMEMORY_H
#define PSRT_DEVICE_CUDA_CUDAMEMORY_H

#include "runtime/core/RankMemory.h"
#include "runtime/device/cuda/Gpu.h"
#include <deque>

namespace psrt::cuda {

/// Copies to the GPU are enqueued from pinned buffers, which are used again when their copy is
/// over; the host waits for that only where the buffers would become too many. Reading waits for
/// the stream.
class CudaMemory : public RankMemory {
public:
  CudaMemory(StreamRef stream, size_t bytes);
  ~CudaMemory() override;

  size_t size() const override { return bytes; }
  void *at(int64_t address) const override {
    return reinterpret_cast<void *>(memory.get() + CUdeviceptr(address));
  }
  char *host(int64_t) const override { return nullptr; }
  void write(int64_t address, const void *from, size_t count) override;
  void read(int64_t address, void *to, size_t count) override;
  void zero(int64_t address, size_t count) override;
  char *stage(int64_t address, size_t count) override;
  void commit(char *staged, int64_t address, size_t count) override;

private:
  struct Block {
    Block(const GpuRef &gpu, size_t bytes) : memory(gpu, bytes), over(gpu) {}
    PinnedMemory memory;
    Event over;
    bool isCopied = false; ///< a copy from it may be under way
  };
  Block *findFree(size_t count);
  Block *awaitOne(size_t count);

  StreamRef stream;
  size_t bytes;
  DeviceMemory memory;
  std::deque<Block> blocks;
  size_t pinned = 0; ///< bytes of all blocks
};

} // namespace psrt::cuda

#endif
