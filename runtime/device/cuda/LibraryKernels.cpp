// Images of the runtime's kernels, and launches.
#include "runtime/device/cuda/LibraryKernels.h"

namespace psrt::cuda {

CUfunction LibraryKernels::find(const std::string &kernel) const {
  std::lock_guard<std::mutex> lock(mutex);
  bool isStandin = gpu->getDriver().isStandin();
  if (!module)
    module.emplace(gpu, isStandin ? psrt_cuda_kernels_replay : psrt_cuda_kernels_ptx,
                   "the runtime");
  CUfunction &function = known[kernel];
  if (!function)
    function = module->find(kernel);
  return function;
}

void LibraryKernels::launch(const Stream &stream, const Launches &launches,
                            const std::vector<Access> &accesses) const {
  const Driver &driver = gpu->getDriver();
  for (const KernelLaunch &one : launches) {
    if (driver.isStandin())
      driver.access(stream.get(), one.kernel.c_str(), int(accesses.size()), accesses.data());
    void *parameters[] = {const_cast<std::byte *>(one.arguments.data())};
    gpu->check(driver.launchKernel(find(one.kernel), one.grid, 1, 1, one.block, 1, 1, 0,
                                   stream.get(), parameters, nullptr),
               one.kernel.c_str());
  }
}

} // namespace psrt::cuda
