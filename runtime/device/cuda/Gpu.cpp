// Wraps driver handles in objects. Destructors ignore errors, as these were reported before.
#include "runtime/device/cuda/Gpu.h"
#include "runtime/core/Status.h"

namespace psrt::cuda {

Gpu::Gpu(DriverRef given, int ordinal) : driver(std::move(given)), ordinal(ordinal) {
  check(driver->deviceGet(&device, ordinal), "to open a GPU");
  char text[256] = "";
  check(driver->deviceGetName(text, sizeof(text), device), "to query a GPU's name");
  name = text;
  int major = 0, minor = 0;
  check(driver->deviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
        "to query a GPU's attributes");
  check(driver->deviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        "to query a GPU's attributes");
  architecture = major * 10 + minor;
  check(driver->deviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
        "to query a GPU's attributes");
  check(driver->primaryCtxRetain(&context, device), "to create a GPU's context");
}

Gpu::~Gpu() { driver->primaryCtxRelease(device); }

void Gpu::enter() const { check(driver->ctxSetCurrent(context), "to enter a GPU's context"); }

std::pair<size_t, size_t> Gpu::queryMemory() const {
  size_t free = 0, total = 0;
  enter();
  check(driver->memGetInfo(&free, &total), "to query free memory");
  return {free, total};
}

DeviceMemory::DeviceMemory(GpuRef given, size_t bytes, const char *purpose)
    : gpu(std::move(given)), bytes(bytes) {
  gpu->enter();
  CUresult result = gpu->getDriver().memAlloc(&pointer, bytes ? bytes : 1);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    refuse(
        "GPU %d (%s) cannot allocate %zu bytes for %s, because only %zu bytes are free; use more "
        "ranks or a smaller micro-batch",
        gpu->getOrdinal(), gpu->getName().c_str(), bytes, purpose, gpu->freeMemory());
  gpu->check(result, "to allocate memory");
}

DeviceMemory::~DeviceMemory() {
  gpu->tryToEnter();
  gpu->getDriver().memFree(pointer);
}

PinnedMemory::PinnedMemory(GpuRef given, size_t bytes) : gpu(std::move(given)), bytes(bytes) {
  gpu->enter();
  CUresult result =
      gpu->getDriver().memHostAlloc(&pointer, bytes ? bytes : 1, CU_MEMHOSTALLOC_PORTABLE);
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    refuse("the host cannot allocate %zu bytes of pinned memory for GPU %d (%s); use more "
           "ranks on other hosts, or compile without --offload",
           bytes, gpu->getOrdinal(), gpu->getName().c_str());
  gpu->check(result, "to allocate pinned host memory");
}

PinnedMemory::~PinnedMemory() {
  gpu->tryToEnter();
  gpu->getDriver().memFreeHost(pointer);
}

Stream::Stream(GpuRef given) : gpu(std::move(given)) {
  gpu->enter();
  gpu->check(gpu->getDriver().streamCreate(&stream, CU_STREAM_NON_BLOCKING), "to create a stream");
}

Stream::~Stream() {
  gpu->tryToEnter();
  gpu->getDriver().streamDestroy(stream);
}

void Stream::synchronize() const {
  gpu->enter();
  const char *action = "while running the program's instructions";
  gpu->await(
      [&] {
        CUresult result = gpu->getDriver().streamQuery(stream);
        if (result != CUDA_ERROR_NOT_READY)
          gpu->check(result, action);
        return result == CUDA_SUCCESS;
      },
      [&] { gpu->check(gpu->getDriver().streamSynchronize(stream), action); });
}

Event::Event(GpuRef given, bool timed) : gpu(std::move(given)) {
  gpu->enter();
  gpu->check(
      gpu->getDriver().eventCreate(&event, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
      "to create an event");
}

Event::~Event() {
  gpu->tryToEnter();
  gpu->getDriver().eventDestroy(event);
}

void Event::record(const Stream &stream) const {
  gpu->check(gpu->getDriver().eventRecord(event, stream.get()), "to record an event");
}

bool Event::isOver() const {
  CUresult result = gpu->getDriver().eventQuery(event);
  if (result != CUDA_ERROR_NOT_READY)
    gpu->check(result, "to query an event");
  return result == CUDA_SUCCESS;
}

void Event::synchronize() const {
  gpu->await([&] { return isOver(); },
             [&] { gpu->check(gpu->getDriver().eventSynchronize(event), "to wait for an event"); });
}

void Event::makeWait(const Stream &stream) const {
  gpu->check(gpu->getDriver().streamWaitEvent(stream.get(), event, 0), "to make a stream wait");
}

} // namespace psrt::cuda
