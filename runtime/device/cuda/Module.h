// Loads an image of kernels onto a GPU, once per GPU.
#ifndef PSRT_DEVICE_CUDA_MODULE_H
#define PSRT_DEVICE_CUDA_MODULE_H

#include "runtime/device/cuda/Gpu.h"

namespace psrt::cuda {

class Module {
public:
  /// `whose` names the owner of the kernels in messages, e.g. "the program". The image is
  /// null-terminated PTX text, or a replay image for the fake driver (Replay.h).
  Module(GpuRef gpu, const char *image, const char *whose);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;
  /// Returns a kernel. Fails if the module has no kernel of this name.
  CUfunction find(const std::string &kernel) const;

private:
  GpuRef gpu;
  std::string whose;
  CUmodule module = nullptr;
};

using ModuleRef = std::shared_ptr<const Module>;

} // namespace psrt::cuda

#endif
