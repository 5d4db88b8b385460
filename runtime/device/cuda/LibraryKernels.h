// Finds and launches the kernels of the runtime (folder kernels/).
#ifndef PSRT_DEVICE_CUDA_LIBRARYKERNELS_H
#define PSRT_DEVICE_CUDA_LIBRARYKERNELS_H

#include "runtime/device/cuda/Module.h"
#include "runtime/device/cuda/kernels/Launches.h"
#include <map>
#include <mutex>
#include <optional>

namespace psrt::cuda {

/// The kernels of one GPU, shared by its ranks.
class LibraryKernels {
public:
  explicit LibraryKernels(GpuRef gpu) : gpu(std::move(gpu)) {}
  /// Returns a kernel; loads its PTX on first use. Kernels are loaded one by one, because the
  /// driver would take seconds to compile all of them. The fake driver loads the replay image
  /// instead. Fails if the runtime has no kernel of this name.
  CUfunction find(const std::string &kernel) const;
  /// Enqueues launches. `accesses` are reported to the fake driver for each launch.
  void launch(const Stream &stream, const Launches &launches,
              const std::vector<Access> &accesses) const;

private:
  const Module &load(const std::string &kernel) const;

  GpuRef gpu;
  mutable std::mutex mutex;
  mutable std::optional<Module> replay; ///< the fake driver's image
  mutable std::map<std::string, Module> modules;
  mutable std::map<std::string, CUfunction> known;
};

} // namespace psrt::cuda

#endif
