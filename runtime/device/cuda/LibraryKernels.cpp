// Loads images of the runtime's kernels and enqueues launches.
#include "runtime/device/cuda/LibraryKernels.h"

namespace psrt::cuda {

CUfunction LibraryKernels::find(const std::string &kernel) const {
  std::lock_guard<std::mutex> lock(mutex);
  CUfunction &function = known[kernel];
  if (!function)
    function = load(kernel).find(kernel);
  return function;
}

const Module &LibraryKernels::load(const std::string &kernel) const {
  constexpr const char *kWhose = "the runtime";
  if (!gpu->getDriver().isFake())
    return modules.try_emplace(kernel, gpu, ptxOfKernel(kernel).c_str(), kWhose).first->second;
  if (!replay)
    replay.emplace(gpu, psrt_cuda_kernels_replay, kWhose);
  return *replay;
}

void LibraryKernels::launch(const Stream &stream, const Launches &launches,
                            const std::vector<Access> &accesses) const {
  const Driver &driver = gpu->getDriver();
  for (const KernelLaunch &kernelLaunch : launches) {
    if (driver.isFake())
      driver.access(stream.get(), kernelLaunch.kernel.c_str(), int(accesses.size()),
                    accesses.data());
    void *parameters[] = {const_cast<std::byte *>(kernelLaunch.arguments.data())};
    gpu->check(driver.launchKernel(find(kernelLaunch.kernel), kernelLaunch.grid, 1, 1,
                                   kernelLaunch.block, 1, 1, 0, stream.get(), parameters, nullptr),
               kernelLaunch.kernel.c_str());
  }
}

} // namespace psrt::cuda
