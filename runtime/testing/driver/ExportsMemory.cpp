// Implements the driver API's memory allocation, copies and memsets.
#include "runtime/testing/driver/Entry.h"

namespace psrt::fake {

CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return inContext([&](Call &call) -> CUresult {
    if (!free || !total)
      return CUDA_ERROR_INVALID_VALUE;
    *total = machine().settings.memory;
    *free = *total - std::min<size_t>(*total, call.device->used);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
  return outsideCapture([&](Call &call) -> CUresult {
    Machine &m = machine();
    if (!pointer || bytes == 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (call.device->used > m.settings.memory || bytes > m.settings.memory - call.device->used)
      return CUDA_ERROR_OUT_OF_MEMORY;
    const Memory::Range *range = m.memory.allocate(call.device, Memory::Kind::Device, bytes);
    if (!range)
      return CUDA_ERROR_OUT_OF_MEMORY;
    call.device->used += range->charged;
    *pointer = range->begin;
    return CUDA_SUCCESS;
  });
}

/// Frees memory of a kind once the device is idle, as the driver does.
static CUresult release(Call &call, uint64_t address, Memory::Kind kind) {
  Machine &m = machine();
  const Memory::Range *range = m.memory.at(address);
  if (!range || range->kind != kind)
    return CUDA_ERROR_INVALID_VALUE;
  finishDevice(call, range->device);
  range = m.memory.at(address);
  if (!range)
    return CUDA_ERROR_INVALID_VALUE; // another thread freed the memory meanwhile
  if (kind == Memory::Kind::Device)
    range->device->used -= range->charged;
  m.order.forget(range->begin, range->end);
  m.memory.release(*range);
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr pointer) {
  return outsideCapture([&](Call &call) -> CUresult {
    return pointer == 0 ? CUDA_SUCCESS : release(call, pointer, Memory::Kind::Device);
  });
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  return outsideCapture([&](Call &call) -> CUresult {
    if (!pointer || bytes == 0 || flags & ~7u)
      return CUDA_ERROR_INVALID_VALUE;
    const Memory::Range *range =
        machine().memory.allocate(call.device, Memory::Kind::Pinned, bytes);
    if (!range)
      return CUDA_ERROR_OUT_OF_MEMORY;
    *pointer = reinterpret_cast<void *>(range->begin);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemFreeHost(void *pointer) {
  return outsideCapture([&](Call &call) -> CUresult {
    return release(call, reinterpret_cast<uint64_t>(pointer), Memory::Kind::Pinned);
  });
}

namespace {

bool onDevice(CUdeviceptr pointer, size_t bytes) {
  const Memory::Range *range = machine().memory.holding(pointer, bytes);
  return range && range->kind == Memory::Kind::Device;
}

/// Returns true if the host memory is pinned. Copies access pinned memory when they run. Copies
/// from pageable memory use its contents at the time of the call.
bool isPinned(const void *pointer, size_t bytes) {
  return machine().memory.holding(reinterpret_cast<uint64_t>(pointer), bytes) != nullptr;
}

/// Returns true if the host memory may be copied. Ranges of pinned memory must be within one
/// allocation.
bool hostIsValid(const void *pointer, size_t bytes) {
  return pointer && (isPinned(pointer, bytes) || !isPinned(pointer, 0));
}

Access reads(const void *at, size_t bytes) {
  auto begin = reinterpret_cast<uint64_t>(at);
  return {begin, begin + bytes, false};
}

Access writes(const void *at, size_t bytes) {
  auto begin = reinterpret_cast<uint64_t>(at);
  return {begin, begin + bytes, true};
}

/// Enqueues a copy. The order of accesses to pageable memory is not checked, because the host's
/// allocator may reuse the memory.
CUresult copy(Stream &stream, const char *name, void *to, const void *from, size_t bytes) {
  Operation operation{"copy", name, {}, {}};
  if (isPinned(to, bytes))
    operation.accesses.push_back(writes(to, bytes));
  if (isPinned(from, bytes))
    operation.accesses.push_back(reads(from, bytes));
  operation.run = [=]() -> CUresult {
    std::memmove(to, from, bytes);
    return CUDA_SUCCESS;
  };
  return submit(stream, std::move(operation));
}

/// Enqueues a copy from pageable memory, whose contents are saved now.
CUresult copyPageable(Stream &stream, const char *name, void *to, const void *from, size_t bytes) {
  auto *begin = static_cast<const char *>(from);
  Operation operation{"copy", name, {writes(to, bytes)}, {}};
  operation.run = [to, taken = std::vector<char>(begin, begin + bytes)]() -> CUresult {
    std::memcpy(to, taken.data(), taken.size());
    return CUDA_SUCCESS;
  };
  return submit(stream, std::move(operation));
}

} // namespace

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream handle) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (bytes == 0)
      return CUDA_SUCCESS;
    if (!onDevice(to, bytes) || !hostIsValid(from, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    auto *target = reinterpret_cast<void *>(to);
    if (isPinned(from, bytes) || stream->capture)
      return copy(*stream, "copy host to device", target, from, bytes);
    return copyPageable(*stream, "copy host to device", target, from, bytes);
  });
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream handle) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (bytes == 0)
      return CUDA_SUCCESS;
    if (!onDevice(from, bytes) || !hostIsValid(to, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    return copy(*stream, "copy device to host", to, reinterpret_cast<const void *>(from), bytes);
  });
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (bytes == 0)
      return CUDA_SUCCESS;
    if (!onDevice(to, bytes) || !onDevice(from, bytes))
      return CUDA_ERROR_INVALID_VALUE;
    return copy(*stream, "copy device to device", reinterpret_cast<void *>(to),
                reinterpret_cast<const void *>(from), bytes);
  });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream handle) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (count == 0)
      return CUDA_SUCCESS;
    if (!onDevice(to, count))
      return CUDA_ERROR_INVALID_VALUE;
    auto *target = reinterpret_cast<void *>(to);
    Operation operation{"memset", "memset", {writes(target, count)}, {}};
    operation.run = [=]() -> CUresult {
      std::memset(target, value, count);
      return CUDA_SUCCESS;
    };
    return submit(*stream, std::move(operation));
  });
}

} // namespace psrt::fake
