// Copies between host and GPU.
#include "runtime/device/cuda/CudaMemory.h"
#include "runtime/core/MemoryPieces.h"
#include "runtime/device/cuda/Workspace.h"
#include <cstring>

namespace psrt::cuda {

/// Limit on the total size of a rank's pinned buffers, in bytes. At the limit, a write waits for a
/// buffer that is large enough. If no buffer is large enough, the write allocates one nevertheless.
static constexpr size_t kMaxPinned = size_t(64) << 20;
/// Kernels may read slightly past the end of their buffers, as on the host (Arena::end).
static constexpr size_t kGuardBytes = 4096;

CudaMemory::CudaMemory(StreamRef given, MemorySizes sizes)
    : stream(std::move(given)), side(stream->getGpu()), sizes(sizes),
      memory(stream->getGpu(), sizes.bytes + kGuardBytes, "a rank's memory") {
  zero(0, sizes.bytes + kGuardBytes);
  if (sizes.hostBytes == 0)
    return;
  hostPart = std::make_unique<PinnedMemory>(stream->getGpu(), sizes.hostBytes);
  std::memset(hostPart->get(), 0, sizes.hostBytes);
}

char *CudaMemory::awaitHost(int64_t address) const {
  stream->synchronize();
  return inHost(address);
}

CudaMemory::~CudaMemory() {
  // Copies may still be running.
  stream->getGpu()->tryToEnter();
  stream->getGpu()->getDriver().streamSynchronize(side.get());
  stream->getGpu()->getDriver().streamSynchronize(stream->get());
}

CudaMemory::Block *CudaMemory::findFree(size_t count) {
  Block *best = nullptr;
  for (Block &block : blocks) {
    if (block.reader || block.memory.size() < count ||
        (best && best->memory.size() <= block.memory.size()))
      continue;
    if (block.isCopied && !block.over.isOver())
      continue;
    best = &block;
  }
  if (best)
    best->isCopied = false;
  return best;
}

CudaMemory::Block *CudaMemory::awaitOne(size_t count) {
  for (Block &block : blocks)
    if (!block.reader && block.memory.size() >= count) {
      block.over.synchronize();
      block.isCopied = false;
      return &block;
    }
  return nullptr;
}

char *CudaMemory::stage(int64_t, size_t count) {
  stream->getGpu()->enter();
  Block *block = findFree(count);
  if (!block && pinned + count > kMaxPinned)
    block = awaitOne(count);
  if (!block) {
    size_t size = (count + 4095) / 4096 * 4096;
    block = &blocks.emplace_back(stream->getGpu(), size);
    pinned += size;
  }
  return block->memory.get();
}

void CudaMemory::copyFrom(char *staged, CUdeviceptr to, size_t count, const Stream &by) {
  const Gpu &gpu = *stream->getGpu();
  if (count)
    gpu.check(gpu.getDriver().memcpyHtoDAsync(to, staged, count, by.get()), "to copy to the GPU");
  for (Block &block : blocks)
    if (block.memory.get() == staged) {
      block.over.record(by);
      block.isCopied = true;
    }
}

void CudaMemory::commit(char *staged, int64_t address, size_t count) {
  if (sizes.isInHost(address)) {
    std::memcpy(awaitHost(address), staged, count);
    return;
  }
  stream->getGpu()->enter();
  copyFrom(staged, memory.get() + CUdeviceptr(address), count, *stream);
}

CudaMemory::Landing *CudaMemory::findLanding(int64_t address, size_t count) {
  auto it = landings.find(address);
  if (it == landings.end()) {
    if (landed + count > kLandingBytes)
      return nullptr;
    it = landings.try_emplace(address, stream->getGpu(), count).first;
    landed += count;
  }
  return it->second.memory.size() >= count ? &it->second : nullptr;
}

void CudaMemory::commitAhead(char *staged, int64_t address, size_t count) {
  if (sizes.isInHost(address))
    return commit(staged, address, count);
  const Gpu &gpu = *stream->getGpu();
  gpu.enter();
  Landing *landing = count ? findLanding(address, count) : nullptr;
  if (!landing)
    return commit(staged, address, count);
  if (landing->isUsed)
    landing->taken.makeWait(side);
  copyFrom(staged, landing->memory.get(), count, side);
  landing->brought.record(side);
  landing->brought.makeWait(*stream);
  gpu.check(gpu.getDriver().memcpyDtoDAsync(memory.get() + CUdeviceptr(address),
                                            landing->memory.get(), count, stream->get()),
            "to copy inputs");
  landing->taken.record(*stream);
  landing->isUsed = true;
}

void CudaMemory::startRead(int64_t address, void *to, size_t count) {
  const Gpu &gpu = *stream->getGpu();
  char *staged = stage(address, count);
  if (sizes.isInHost(address))
    std::memcpy(staged, awaitHost(address), count);
  else
    gpu.check(gpu.getDriver().memcpyDtoHAsync(staged, memory.get() + CUdeviceptr(address), count,
                                              stream->get()),
              "to copy from the GPU");
  for (Block &block : blocks)
    if (block.memory.get() == staged) {
      block.over.record(*stream);
      block.isCopied = true;
      block.reader = to;
      block.readBytes = count;
    }
}

void CudaMemory::finishRead(void *to) {
  stream->getGpu()->enter();
  for (Block &block : blocks)
    if (block.reader == to) {
      block.over.synchronize();
      std::memcpy(to, block.memory.get(), block.readBytes);
      block.reader = nullptr;
    }
}

void CudaMemory::write(int64_t address, const void *from, size_t count) {
  if (sizes.isInHost(address)) {
    std::memcpy(awaitHost(address), from, count);
    return;
  }
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
  if (sizes.isInHost(address)) {
    std::memcpy(to, awaitHost(address), count);
    return;
  }
  auto *bytes = static_cast<char *>(to);
  for (size_t done = 0; done < count;) {
    size_t n = std::min(count - done, size_t(kPieceBytes));
    startRead(address + int64_t(done), bytes + done, n);
    finishRead(bytes + done);
    done += n;
  }
}

void CudaMemory::zero(int64_t address, size_t count) {
  if (sizes.isInHost(address)) {
    std::memset(awaitHost(address), 0, count);
    return;
  }
  const Gpu &gpu = *stream->getGpu();
  gpu.enter();
  if (count)
    gpu.check(
        gpu.getDriver().memsetD8Async(memory.get() + CUdeviceptr(address), 0, count, stream->get()),
        "to zero memory");
}

} // namespace psrt::cuda
