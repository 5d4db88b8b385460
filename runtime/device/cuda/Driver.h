// Loads the CUDA driver from $PSRT_CUDA_DRIVER or libcuda.so.1 when a program needs it.
#ifndef PSRT_DEVICE_CUDA_DRIVER_H
#define PSRT_DEVICE_CUDA_DRIVER_H

#include "runtime/device/cuda/DriverApi.h"
#include <memory>

namespace psrt::cuda {

/// The bytes [begin, end) that an operation reads. With `writes`, the operation also writes them.
struct Access {
  CUdeviceptr begin, end;
  int writes;
};

struct Driver {
#define PSRT_FIELD(name, symbol, arguments) CUresult(*name) arguments = nullptr;
  PSRT_CUDA_FUNCTIONS(PSRT_FIELD)
#undef PSRT_FIELD

  // Functions of the fake driver (runtime/testing/driver/Fake.h); null with NVIDIA's driver.
  void (*access)(CUstream stream, const char *name, int count, const Access *accesses) = nullptr;
  void (*release)(const void *token) = nullptr;
  void (*acquire)(const void *token) = nullptr;
  bool isFake() const { return access != nullptr; }

  /// Fails with the error's name and text unless the call succeeded. `action` completes "the CUDA
  /// driver failed ...", e.g. "to copy 8 bytes".
  void check(CUresult result, const char *action, const char *file = __builtin_FILE(),
             int line = __builtin_LINE()) const;
};

using DriverRef = std::shared_ptr<const Driver>;

/// Loads and initializes the driver, which is never unloaded. Fails if the machine has no
/// driver or GPU, or if the driver is too old. The error says what to do.
DriverRef loadDriver();

/// Fails with an error that the user can fix. Like PSRT_FAIL(Failed, ...), but without the
/// runtime's source location.
[[noreturn]] void refuse(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

} // namespace psrt::cuda

#endif
