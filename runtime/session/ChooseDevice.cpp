// Chooses the device that a program was compiled for.
#include "runtime/core/Backend.h"
#include "runtime/core/Status.h"

// Defined in psrt_device_cpu and psrt_device_cuda; a program links the one it was compiled for.
extern "C" psrt::Device *psrt_make_cpu_device(const psrt::DeviceRequest &request)
    __attribute__((weak));
extern "C" psrt::Device *psrt_make_cuda_device(const psrt::DeviceRequest &request)
    __attribute__((weak));

namespace psrt {

std::unique_ptr<Device> makeDevice(const DeviceRequest &request) {
  const std::string &target = request.program.target;
  std::string kind = target.substr(0, target.find(':'));
  if (kind != "cpu" && kind != "cuda")
    PSRT_FAIL(BadInput,
              "the program is compiled for \"%s\", but this runtime supports cpu and cuda; compile "
              "and link with the same version",
              target.c_str());
  auto make = kind == "cpu" ? psrt_make_cpu_device : psrt_make_cuda_device;
  if (!make)
    PSRT_FAIL(
        BadInput,
        "the program is compiled for \"%s\", whose runtime is not linked into this executable; "
        "link with ps-compile",
        target.c_str());
  return std::unique_ptr<Device>(make(request));
}

} // namespace psrt
