// Kernels on a GPU: an image, loaded once for each GPU.
#ifndef PSRT_DEVICE_CUDA_MODULE_H
#define PSRT_DEVICE_CUDA_MODULE_H

#include "runtime/device/cuda/Gpu.h"

namespace psrt::cuda {

class Module {
public:
  /// `whose` kernels they are, in messages. The image is PTX text that ends in a zero, or what the
  /// fake driver takes in its place (Replay.h).
  Module(GpuRef gpu, const char *image, const char *whose);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;
  /// Fails where there is no kernel of that name.
  CUfunction find(const std::string &kernel) const;

private:
  GpuRef gpu;
  std::string whose;
  CUmodule module = nullptr;
};

using ModuleRef = std::shared_ptr<const Module>;

} // namespace psrt::cuda

#endif
