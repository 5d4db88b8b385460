// Copies between host and GPU.
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/core/MemoryPieces.h"
#include <cstring>

namespace psrt::cuda {

/// Of pinned memory: beyond it one waits for a buffer instead of making another.
static constexpr size_t kMostPinned = size_t(64) << 20;
/// Instructions may look a little behind their buffers, as on the host (Arena::end).
static constexpr size_t kGuardBytes = 4096;

CudaMemory::CudaMemory(StreamRef given, size_t bytes)
    : stream(std::move(given)), bytes(bytes),
      memory(stream->getGpu(), bytes + kGuardBytes, "the memory of a rank") {
  zero(0, bytes + kGuardBytes);
}

CudaMemory::~CudaMemory() {
  // Copies may still be on their way.
  stream->getGpu()->tryToEnter();
  stream->getGpu()->getDriver().streamSynchronize(stream->get());
}

CudaMemory::Block *CudaMemory::findFree(size_t count) {
  Block *best = nullptr;
  for (Block &block : blocks) {
    if (block.memory.size() < count || (best && best->memory.size() <= block.memory.size()))
      continue;
    if (block.isCopied && !block.over.isOver())
      continue;
    block.isCopied = false;
    best = &block;
  }
  return best;
}

CudaMemory::Block *CudaMemory::awaitOne(size_t count) {
  for (Block &block : blocks)
    if (block.memory.size() >= count) {
      block.over.synchronize();
      block.isCopied = false;
      return &block;
    }
  return nullptr;
}

char *CudaMemory::stage(int64_t, size_t count) {
  stream->getGpu()->enter();
  Block *block = findFree(count);
  if (!block && pinned + count > kMostPinned)
    block = awaitOne(count);
  if (!block) {
    size_t size = (count + 4095) / 4096 * 4096;
    block = &blocks.emplace_back(stream->getGpu(), size);
    pinned += size;
  }
  return block->memory.get();
}

void CudaMemory::commit(char *staged, int64_t address, size_t count) {
  const Gpu &gpu = *stream->getGpu();
  gpu.enter();
  if (count)
    gpu.check(gpu.getDriver().memcpyHtoDAsync(memory.get() + CUdeviceptr(address), staged, count,
                                              stream->get()),
              "to copy to the GPU");
  for (Block &block : blocks)
    if (block.memory.get() == staged) {
      block.over.record(*stream);
      block.isCopied = true;
    }
}

void CudaMemory::write(int64_t address, const void *from, size_t count) {
  auto *bytes = static_cast<const char *>(from);
  for (size_t done = 0; done < count;) {
    size_t n = std::min(count - done, size_t(kPieceBytes));
    char *staged = stage(address + int64_t(done), n);
    std::memcpy(staged, bytes + done, n);
    commit(staged, address + int64_t(done), n);
    done += n;
  }
}

void CudaMemory::read(int64_t address, void *to, size_t count) {
  const Gpu &gpu = *stream->getGpu();
  for (size_t done = 0; done < count;) {
    size_t n = std::min(count - done, size_t(kPieceBytes));
    char *staged = stage(address, n);
    gpu.check(gpu.getDriver().memcpyDtoHAsync(staged, memory.get() + CUdeviceptr(address) + done, n,
                                              stream->get()),
              "to copy from the GPU");
    stream->synchronize();
    std::memcpy(static_cast<char *>(to) + done, staged, n);
    done += n;
  }
}

void CudaMemory::zero(int64_t address, size_t count) {
  const Gpu &gpu = *stream->getGpu();
  gpu.enter();
  if (count)
    gpu.check(
        gpu.getDriver().memsetD8Async(memory.get() + CUdeviceptr(address), 0, count, stream->get()),
        "to zero memory");
}

} // namespace psrt::cuda
