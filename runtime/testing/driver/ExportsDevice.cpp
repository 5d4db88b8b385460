// Implements the driver API's initialization, errors, devices and contexts.
#include "runtime/testing/driver/Entry.h"
#include "runtime/testing/driver/Modules.h"
#include <cstdio>

namespace psrt::fake {

Device *&currentDevice() {
  thread_local Device *current = nullptr;
  return current;
}

/// Returns the device of an ordinal, or null.
static Device *deviceAt(CUdevice ordinal) {
  Machine &m = machine();
  bool exists = ordinal >= 0 && ordinal < m.settings.devices;
  return exists ? m.devices[size_t(ordinal)].get() : nullptr;
}

CUresult cuInit(unsigned flags) {
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Call call;
  machine().initialise();
  return machine().settings.devices > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) {
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = machine().settings.version;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text) {
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  *text = codeName(error);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  if (!text)
    return CUDA_ERROR_INVALID_VALUE;
  *text = codeText(error);
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count) {
  return initialised([&](Call &) -> CUresult {
    if (!count)
      return CUDA_ERROR_INVALID_VALUE;
    *count = machine().settings.devices;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return initialised([&](Call &) -> CUresult {
    if (!device)
      return CUDA_ERROR_INVALID_VALUE;
    if (!deviceAt(ordinal))
      return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  return initialised([&](Call &) -> CUresult {
    if (!name || length <= 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (!deviceAt(device))
      return CUDA_ERROR_INVALID_DEVICE;
    std::snprintf(name, size_t(length), "Parashard fake");
    return CUDA_SUCCESS;
  });
}

/// Returns the value of an attribute, or -1 if the fake does not know the attribute.
static int attributeOf(CUdevice_attribute attribute) {
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    return 1000000;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return 1;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return machine().settings.major;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return machine().settings.minor;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return 227 * 1024;
  }
  return -1;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return initialised([&](Call &) -> CUresult {
    if (!value || attributeOf(attribute) < 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (!deviceAt(device))
      return CUDA_ERROR_INVALID_DEVICE;
    *value = attributeOf(attribute);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  return initialised([&](Call &) -> CUresult {
    Device *found = deviceAt(device);
    if (!context)
      return CUDA_ERROR_INVALID_VALUE;
    if (!found)
      return CUDA_ERROR_INVALID_DEVICE;
    ++found->retained;
    *context = reinterpret_cast<CUcontext>(found);
    return CUDA_SUCCESS;
  });
}

void finishDevice(Call &call, Device *device) {
  for (const StreamRef &stream : machine().streamsOf(device))
    finish(stream, call.lock);
}

/// Removes the handles whose `owner` is the device.
template <typename T, typename Owner>
static void removeAll(Handles<T> &handles, const Device *device, Owner owner) {
  for (const auto &thing : handles.all())
    if (owner(*thing) == device)
      handles.remove(thing.get());
}

/// Destroys a context with its resources and its error.
static void destroyContext(Call &call, Device *device) {
  Machine &m = machine();
  finishDevice(call, device);
  for (const StreamRef &stream : m.streamsOf(device))
    closeStream(*stream);
  removeAll(m.execs, device, [](const GraphExec &exec) { return exec.device; });
  removeAll(m.streams, device, [](const Stream &stream) { return stream.device; });
  removeAll(m.events, device, [](const Event &event) { return event.device; });
  removeAll(m.functions, device, [](const Function &function) { return function.module->device; });
  removeAll(m.modules, device, [](const Module &module) { return module.device; });
  for (const Memory::Range &range : m.memory.of(device)) {
    m.order.forget(range.begin, range.end);
    m.memory.release(range);
  }
  m.order.forgetReports();
  device->used = 0;
  device->error = CUDA_SUCCESS;
  device->dead = false;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return initialised([&](Call &call) -> CUresult {
    Device *found = deviceAt(device);
    if (!found)
      return CUDA_ERROR_INVALID_DEVICE;
    if (found->retained == 0)
      return CUDA_ERROR_INVALID_CONTEXT;
    if (--found->retained == 0)
      destroyContext(call, found);
    return CUDA_SUCCESS;
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  return initialised([&](Call &) -> CUresult {
    if (context && !machine().isDevice(context))
      return CUDA_ERROR_INVALID_CONTEXT;
    currentDevice() = reinterpret_cast<Device *>(context);
    return CUDA_SUCCESS;
  });
}

} // namespace psrt::fake
