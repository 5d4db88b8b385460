// One rank's memory on a GPU: one allocation, reached by copies in the rank's stream.
#ifndef PSRT_DEVICE_CUDA_CUDAMEMORY_H
#define PSRT_DEVICE_CUDA_CUDAMEMORY_H

#include "runtime/core/RankMemory.h"
#include "runtime/device/cuda/Gpu.h"
#include <deque>
#include <map>

namespace psrt::cuda {

/// Copies to the GPU are enqueued from pinned buffers, which are used again when their copy is
/// over; the host waits for that only where the buffers would become too many. Reading waits for
/// the stream, and so does whatever looks at the host's part: instructions that copy from or to it
/// are over when the stream is (CudaTransfers). What is brought ahead comes by a stream of its own
/// to a landing, and from there by a copy within the GPU.
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
    bool isCopied = false;  ///< a copy from it may be under way
    void *reader = nullptr; ///< where what is read there goes when it is there
    size_t readBytes = 0;
  };
  /// Memory of the GPU beside the rank's, for what goes to one address.
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
  /// The host's part, when nothing that was enqueued uses it any more.
  char *awaitHost(int64_t address) const;
  Block *findFree(size_t count);
  Block *awaitOne(size_t count);
  void copyFrom(char *staged, CUdeviceptr to, size_t count, const Stream &by);
  /// Null where there is no room for another one.
  Landing *findLanding(int64_t address, size_t count);

  StreamRef stream;
  Stream side; ///< by which data comes ahead
  MemorySizes sizes;
  DeviceMemory memory;
  std::unique_ptr<PinnedMemory> hostPart; ///< null where there is none
  std::deque<Block> blocks;
  size_t pinned = 0;                   ///< bytes of all blocks
  std::map<int64_t, Landing> landings; ///< by address
  size_t landed = 0;                   ///< bytes of all landings
};

} // namespace psrt::cuda

#endif
