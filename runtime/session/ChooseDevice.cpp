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
  const Target &target = request.program.target;
  auto make = target.device == DeviceKind::Cpu ? psrt_make_cpu_device : psrt_make_cuda_device;
  if (!make)
    PSRT_FAIL(
        BadInput,
        "the program is compiled for \"%s\", whose runtime is not linked into this executable; "
        "link with ps-compile",
        target.text.c_str());
  return std::unique_ptr<Device>(make(request));
}

} // namespace psrt
