// One rank's memory on a GPU: one allocation, reached by copies in the rank's stream.
#ifndef PSRT_DEVICE_CUDA_CUDAMEMORY_H
#define PSRT_DEVICE_CUDA_CUDAMEMORY_H

#include "runtime/core/RankMemory.h"
#include "runtime/device/cuda/Gpu.h"
#include <deque>
#include <map>

namespace psrt::cuda {

/// One rank's memory on a GPU, with an optional part in pinned host memory.
/// - Copies to the GPU are enqueued from pinned buffers, which are reused once their copy is done.
///   The host waits for a copy only if the buffers' total size would exceed a limit.
/// - Reads wait for the stream. So do host accesses to the host part, because transfers finish with
///   the stream (CudaTransfers).
/// - Prefetched data is copied by a side stream to a landing buffer and from there within the GPU.
class CudaMemory : public RankMemory {
public:
  CudaMemory(StreamRef stream, MemorySizes sizes);
  ~CudaMemory() override;

  size_t size() const override { return sizes.end(); }
  void *at(int64_t address) const override {
    return sizes.isInHost(address) ? static_cast<void *>(inHost(address))
                                   : reinterpret_cast<void *>(memory.get() + CUdeviceptr(address));
  }
  char *host(int64_t) const override { return nullptr; }
  void write(int64_t address, const void *from, size_t count) override;
  void read(int64_t address, void *to, size_t count) override;
  void zero(int64_t address, size_t count) override;
  char *stage(int64_t address, size_t count) override;
  void commit(char *staged, int64_t address, size_t count) override;
  void commitAhead(char *staged, int64_t address, size_t count) override;
  void startRead(int64_t address, void *to, size_t count) override;
  void finishRead(void *to) override;

private:
  struct Block {
    Block(const GpuRef &gpu, size_t bytes) : memory(gpu, bytes), over(gpu) {}
    PinnedMemory memory;
    Event over;
    bool isCopied = false;  ///< a copy from or to this block may be running
    void *reader = nullptr; ///< destination of the data being read, or null
    size_t readBytes = 0;
  };
  /// A GPU buffer for data prefetched for one address, separate from the rank's memory.
  struct Landing {
    Landing(const GpuRef &gpu, size_t bytes)
        : memory(gpu, bytes, "the inputs of the next step"), brought(gpu), taken(gpu) {}
    DeviceMemory memory;
    Event brought, taken;
    bool isUsed = false;
  };
  char *inHost(int64_t address) const {
    return hostPart->get() + (size_t(address) - sizes.hostBase);
  }
  /// Returns the host address after waiting for all enqueued work.
  char *awaitHost(int64_t address) const;
  Block *findFree(size_t count);
  Block *awaitOne(size_t count);
  void copyFrom(char *staged, CUdeviceptr to, size_t count, const Stream &by);
  /// Returns null if the memory for landings is used up.
  Landing *findLanding(int64_t address, size_t count);

  StreamRef stream;
  Stream side; ///< stream of prefetched data
  MemorySizes sizes;
  DeviceMemory memory;
  std::unique_ptr<PinnedMemory> hostPart; ///< null if there is no host part
  std::deque<Block> blocks;
  size_t pinned = 0;                   ///< total bytes of the blocks
  std::map<int64_t, Landing> landings; ///< by destination address
  size_t landed = 0;                   ///< total bytes of the landings
};

} // namespace psrt::cuda

#endif
