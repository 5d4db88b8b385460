// Loads images. When an image is loaded, the driver compiles its PTX.
#include "runtime/device/cuda/Module.h"
#include "runtime/core/Status.h"
#include <cstring>

namespace psrt::cuda {

Module::Module(GpuRef given, const char *image, const char *whose)
    : gpu(std::move(given)), whose(whose) {
  gpu->enter();
  char log[4096] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  CUresult result = gpu->getDriver().moduleLoadDataEx(&module, image, 2, options, values);
  if (result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    refuse("this machine's CUDA driver is too old for the kernels of %s (%s); install a newer "
           "driver",
           whose, log);
  log[sizeof(log) - 1] = 0;
  std::string purpose = format("to load the kernels of %s%s%s", whose, *log ? ": " : "", log);
  gpu->check(result, purpose.c_str());
}

Module::~Module() {
  gpu->tryToEnter();
  gpu->getDriver().moduleUnload(module);
}

CUfunction Module::find(const std::string &kernel) const {
  CUfunction function = nullptr;
  gpu->enter();
  CUresult result = gpu->getDriver().moduleGetFunction(&function, module, kernel.c_str());
  if (result == CUDA_ERROR_NOT_FOUND)
    PSRT_FAIL(BadInput,
              "%s has no kernel \"%s\" for the GPU; compile the model again, and link with the "
              "same version of Parashard",
              whose.c_str(), kernel.c_str());
  gpu->check(result, "to find a kernel");
  return function;
}

} // namespace psrt::cuda
