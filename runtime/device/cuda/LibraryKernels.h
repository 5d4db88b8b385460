// The runtime's own kernels (kernels/): finding and launching them.
#ifndef PSRT_DEVICE_CUDA_LIBRARYKERNELS_H
#define PSRT_DEVICE_CUDA_LIBRARYKERNELS_H

#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/kernels/Launches.h"
#include <map>
#include <mutex>
#include <optional>

namespace psrt::cuda {

/// Those of one GPU; its ranks share them.
class LibraryKernels {
public:
  explicit LibraryKernels(GpuRef gpu) : gpu(std::move(gpu)) {}
  /// Loads a kernel's PTX when it is asked for first: the driver compiles all of what it is given,
  /// which takes seconds for all kernels. The fake gets the replay image. Fails where there is
  /// no kernel of that name.
  CUfunction find(const std::string &kernel) const;
  /// Enqueues launches. The accesses are what the fake is told of each.
  void launch(const Stream &stream, const Launches &launches,
              const std::vector<Access> &accesses) const;

private:
  const Module &load(const std::string &kernel) const;

  GpuRef gpu;
  mutable std::mutex mutex;
  mutable std::optional<Module> replay; ///< of the fake
  mutable std::map<std::string, Module> modules;
  mutable std::map<std::string, CUfunction> known;
};

} // namespace psrt::cuda

#endif
