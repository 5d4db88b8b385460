// Declares the part of the CUDA driver API that the runtime uses, as in NVIDIA's cuda.h. With its
// own declarations, the runtime builds without the CUDA toolkit and links no library. If cuda.h is
// installed, a test compares the declarations.
#ifndef PSRT_DEVICE_CUDA_DRIVERAPI_H
#define PSRT_DEVICE_CUDA_DRIVERAPI_H

#include <cstddef>
#include <cstdint>

namespace psrt::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct ContextTag *;
using CUmodule = struct ModuleTag *;
using CUfunction = struct FunctionTag *;
using CUstream = struct StreamTag *;
using CUevent = struct EventTag *;
using CUgraph = struct GraphTag *;
using CUgraphExec = struct GraphExecTag *;
using CUhostFn = void (*)(void *data);

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_STUB_LIBRARY = 34,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_UNKNOWN = 999,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
};
enum CUfunction_attribute : int { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum CUjit_option : int {
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
};
enum : unsigned {
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_MEMHOSTALLOC_PORTABLE = 1,
};
enum CUstreamCaptureMode : int { CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1 };

/// X(name in Driver, symbol in libcuda, arguments)
#define PSRT_CUDA_FUNCTIONS(X)                                                                     \
  X(init, cuInit, (unsigned flags))                                                                \
  X(driverGetVersion, cuDriverGetVersion, (int *version))                                          \
  X(getErrorName, cuGetErrorName, (CUresult error, const char **text))                             \
  X(getErrorString, cuGetErrorString, (CUresult error, const char **text))                         \
  X(deviceGetCount, cuDeviceGetCount, (int *count))                                                \
  X(deviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                                      \
  X(deviceGetName, cuDeviceGetName, (char *name, int length, CUdevice device))                     \
  X(deviceGetAttribute, cuDeviceGetAttribute,                                                      \
    (int *value, CUdevice_attribute attribute, CUdevice device))                                   \
  X(primaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))            \
  X(primaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                            \
  X(ctxSetCurrent, cuCtxSetCurrent, (CUcontext context))                                           \
  X(memGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))                                    \
  X(memAlloc, cuMemAlloc_v2, (CUdeviceptr * pointer, size_t bytes))                                \
  X(memFree, cuMemFree_v2, (CUdeviceptr pointer))                                                  \
  X(memHostAlloc, cuMemHostAlloc, (void **pointer, size_t bytes, unsigned flags))                  \
  X(memFreeHost, cuMemFreeHost, (void *pointer))                                                   \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                                         \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                             \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                                         \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                   \
  X(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                                         \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                             \
  X(memsetD8Async, cuMemsetD8Async,                                                                \
    (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                          \
  X(streamCreate, cuStreamCreate, (CUstream * stream, unsigned flags))                             \
  X(streamDestroy, cuStreamDestroy_v2, (CUstream stream))                                          \
  X(streamSynchronize, cuStreamSynchronize, (CUstream stream))                                     \
  X(streamQuery, cuStreamQuery, (CUstream stream))                                                 \
  X(streamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))          \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))      \
  X(streamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                      \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                                                 \
    (CUgraphExec * exec, CUgraph graph, unsigned long long flags))                                 \
  X(graphLaunch, cuGraphLaunch, (CUgraphExec exec, CUstream stream))                               \
  X(graphExecDestroy, cuGraphExecDestroy, (CUgraphExec exec))                                      \
  X(graphDestroy, cuGraphDestroy, (CUgraph graph))                                                 \
  X(eventCreate, cuEventCreate, (CUevent * event, unsigned flags))                                 \
  X(eventDestroy, cuEventDestroy_v2, (CUevent event))                                              \
  X(eventRecord, cuEventRecord, (CUevent event, CUstream stream))                                  \
  X(eventQuery, cuEventQuery, (CUevent event))                                                     \
  X(eventSynchronize, cuEventSynchronize, (CUevent event))                                         \
  X(eventElapsedTime, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))       \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                                          \
    (CUmodule * module, const void *image, unsigned count, CUjit_option *options, void **values))  \
  X(moduleUnload, cuModuleUnload, (CUmodule module))                                               \
  X(moduleGetFunction, cuModuleGetFunction,                                                        \
    (CUfunction * function, CUmodule module, const char *name))                                    \
  X(funcSetAttribute, cuFuncSetAttribute,                                                          \
    (CUfunction function, CUfunction_attribute attribute, int value))                              \
  X(launchKernel, cuLaunchKernel,                                                                  \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,         \
     unsigned blockY, unsigned blockZ, unsigned sharedBytes, CUstream stream, void **parameters,   \
     void **extra))                                                                                \
  X(launchHostFunc, cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data))

} // namespace psrt::cuda

#endif
