// Implements a libcuda.so.1 without a GPU, whose calls do nothing. With this driver, the real cuDNN
// can create plans on any machine, for a GPU described by its properties. The plans cannot run.
#include <cstdint>

#define PSRT_EXPORT extern "C" __attribute__((visibility("default")))
#define PSRT_IDLE(name)                                                                            \
  PSRT_EXPORT int name() { return 0; }

PSRT_IDLE(cuGetErrorString)
PSRT_IDLE(cuGetErrorName)
PSRT_IDLE(cuCtxGetCurrent)
PSRT_IDLE(cuCtxGetLimit)
PSRT_IDLE(cuCtxPopCurrent)
PSRT_IDLE(cuCtxPushCurrent)
PSRT_IDLE(cuDeviceGet)
PSRT_IDLE(cuDeviceGetCount)
PSRT_IDLE(cuKernelSetAttribute)
PSRT_IDLE(cuLaunchCooperativeKernel)
PSRT_IDLE(cuLaunchKernel)
PSRT_IDLE(cuLaunchKernelEx)
PSRT_IDLE(cuLibraryUnload)
PSRT_IDLE(cuLinkAddData)
PSRT_IDLE(cuLinkComplete)
PSRT_IDLE(cuLinkCreate)
PSRT_IDLE(cuLinkDestroy)
PSRT_IDLE(cuModuleGetFunction)
PSRT_IDLE(cuModuleLoadData)
PSRT_IDLE(cuModuleUnload)
PSRT_IDLE(cuStreamGetCtx)
PSRT_IDLE(cuTensorMapEncodeIm2col)
PSRT_IDLE(cuTensorMapEncodeTiled)

/// The object that all returned handles point to.
static char someObject[4096];

static int give(void **object) { return *object = someObject, 0; }

PSRT_EXPORT int cuInit(uint32_t) { return 100; } // no device
PSRT_EXPORT int cuDriverGetVersion(int *version) { return *version = 12080, 0; }
PSRT_EXPORT int cuLibraryLoadData(void **library) { return give(library); }
PSRT_EXPORT int cuLibraryLoadFromFile(void **library) { return give(library); }
PSRT_EXPORT int cuLibraryGetKernel(void **kernel) { return give(kernel); }
PSRT_EXPORT int cuKernelGetFunction(void **function) { return give(function); }
PSRT_EXPORT int cuKernelGetAttribute(int *value) { return *value = 0; }
PSRT_EXPORT int cuOccupancyMaxPotentialClusterSize(int *size) { return *size = 8, 0; }
