// Which device a program runs on: the one that it was compiled for.
#include "runtime/core/Backend.h"
#include "runtime/core/Status.h"

// Defined in psrt_device_cuda, which programs for the CPU do not link.
extern "C" psrt::Device *psrt_make_cuda_device(const psrt::DeviceRequest &request)
    __attribute__((weak));

namespace psrt {

std::unique_ptr<Device> makeDevice(const DeviceRequest &request) {
  const std::string &target = request.program.target;
  if (target == "cpu")
    return makeCpuDevice();
  if (target.rfind("cuda:", 0) != 0)
    PSRT_FAIL(BadInput,
              "the program is compiled for \"%s\", this runtime has cpu and cuda; compile and link "
              "with one version",
              target.c_str());
  if (!psrt_make_cuda_device)
    PSRT_FAIL(BadInput,
              "the program is compiled for \"%s\", and CUDA is not linked into this executable; "
              "link it by ps-compile",
              target.c_str());
  return std::unique_ptr<Device>(psrt_make_cuda_device(request));
}

} // namespace psrt
