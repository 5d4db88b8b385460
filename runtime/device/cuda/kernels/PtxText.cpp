// Extracts one kernel from the PTX text of all kernels.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/kernels/Launches.h"
#include <cstring>

namespace psrt::cuda {

std::string ptxOfKernel(const std::string &name) {
  const char *text = psrt_cuda_kernels_ptx;
  const char *firstKernel = std::strstr(text, ".visible .entry ");
  const char *entry = std::strstr(text, (".visible .entry " + name + "(").c_str());
  const char *end = entry ? std::strstr(entry, "\n}\n") : nullptr;
  if (!end)
    PSRT_FAIL(BadInput, "the runtime has no kernel \"%s\"", name.c_str());
  return std::string(text, firstKernel) + std::string(entry, end + 3);
}

std::vector<std::string> ptxKernels() {
  std::vector<std::string> result;
  constexpr const char *kEntry = ".visible .entry ";
  for (const char *at = psrt_cuda_kernels_ptx; (at = std::strstr(at, kEntry));) {
    at += std::strlen(kEntry);
    result.emplace_back(at, std::strchr(at, '('));
  }
  return result;
}

} // namespace psrt::cuda
