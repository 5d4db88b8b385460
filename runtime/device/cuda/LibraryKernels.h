// The runtime's own kernels (kernels/): finding and launching them.
#ifndef PSRT_DEVICE_CUDA_LIBRARYKERNELS_H
#define PSRT_DEVICE_CUDA_LIBRARYKERNELS_H

#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/kernels/Launches.h"
#include <map>
#include <mutex>

namespace psrt::cuda {

/// Those of one GPU; its ranks share them.
class LibraryKernels {
public:
  /// Loads PTX, or the replay image for the stand-in.
  explicit LibraryKernels(const GpuRef &gpu);
  /// Fails where there is no kernel of that name.
  CUfunction find(const std::string &kernel) const;
  /// Enqueues launches. The accesses are what the stand-in is told of each.
  void launch(const Stream &stream, const Launches &launches,
              const std::vector<Access> &accesses) const;

private:
  GpuRef gpu;
  Module module;
  mutable std::mutex mutex;
  mutable std::map<std::string, CUfunction> known;
};

} // namespace psrt::cuda

#endif
