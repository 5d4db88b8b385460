// Defines the memory of one rank: a single allocation on the GPU and, for offloaded data, one in
// host memory. Copies to and from GPU memory run on the rank's stream.
#ifndef PSRT_DEVICE_CUDA_CUDAMEMORY_H
#define PSRT_DEVICE_CUDA_CUDAMEMORY_H

#include "runtime/core/RankMemory.h"
#include "runtime/device/cuda/Gpu.h"
#include <deque>
#include <map>

namespace psrt::cuda {

/// One rank's memory on a GPU, with an optional part in pinned host memory.
/// - Data for the GPU is first written to a pinned buffer, from which an asynchronous copy is
///   enqueued. A buffer is reused after its copy is done. The host waits for a copy only if the
///   total size of the buffers would exceed a limit.
/// - Reads wait for the stream. Accesses to the host part also wait, because transfers
///   (CudaTransfers) may still use this memory.
/// - Prefetched data is copied to a landing buffer by a side stream, and from there to its address
///   by the rank's stream.
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
    Event over;             ///< end of the last copy
    bool isCopied = false;  ///< a copy from or to this block may be running
    void *reader = nullptr; ///< destination of the data being read, or null
    size_t readBytes = 0;
  };
  /// A GPU buffer, separate from the rank's memory, for data that is prefetched for one address.
  struct Landing {
    Landing(const GpuRef &gpu, size_t bytes)
        : memory(gpu, bytes, "the inputs of the next step"), brought(gpu), taken(gpu) {}
    DeviceMemory memory;
    Event brought, taken; ///< ends of the last copies into and out of this buffer
    bool isUsed = false;
  };
  char *inHost(int64_t address) const {
    return hostPart->get() + (size_t(address) - sizes.hostBase);
  }
  /// Waits for all enqueued work of the rank's stream. Returns the pointer to `address` in host
  /// memory.
  char *awaitHost(int64_t address) const;
  Block *findFree(size_t count);
  Block *awaitOne(size_t count);
  void copyFrom(char *staged, CUdeviceptr to, size_t count, const Stream &by);
  /// Finds or creates the landing buffer of an address. Returns null if the total would exceed
  /// kLandingBytes, or if the existing buffer is too small.
  Landing *findLanding(int64_t address, size_t count);

  StreamRef stream;
  Stream side; ///< stream that copies prefetched data
  MemorySizes sizes;
  DeviceMemory memory;
  std::unique_ptr<PinnedMemory> hostPart; ///< null if there is no host part
  std::deque<Block> blocks;
  size_t pinned = 0;                   ///< total bytes of the blocks
  std::map<int64_t, Landing> landings; ///< by destination address
  size_t landed = 0;                   ///< total bytes of the landing buffers
};

} // namespace psrt::cuda

#endif
