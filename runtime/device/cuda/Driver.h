// The CUDA driver, loaded when a program needs it: $PSRT_CUDA_DRIVER, or libcuda.so.1.
#ifndef PSRT_DEVICE_CUDA_DRIVER_H
#define PSRT_DEVICE_CUDA_DRIVER_H

#include "runtime/device/cuda/DriverApi.h"
#include <memory>

namespace psrt::cuda {

/// Bytes [begin, end) that an operation reads or, with `writes`, reads and writes.
struct Access {
  CUdeviceptr begin, end;
  int writes;
};

struct Driver {
#define PSRT_FIELD(name, symbol, arguments) CUresult(*name) arguments = nullptr;
  PSRT_CUDA_FUNCTIONS(PSRT_FIELD)
#undef PSRT_FIELD

  // Functions of the fake driver (runtime/testing/driver/Fake.h); null with NVIDIA's driver.
  void (*access)(CUstream stream, const char *what, int count, const Access *accesses) = nullptr;
  void (*release)(const void *token) = nullptr;
  void (*acquire)(const void *token) = nullptr;
  bool isFake() const { return access != nullptr; }

  /// Fails with the error's name and text unless a call went well; `what` it did: "to copy 8
  /// bytes".
  void check(CUresult result, const char *what, const char *file = __builtin_FILE(),
             int line = __builtin_LINE()) const;
};

using DriverRef = std::shared_ptr<const Driver>;

/// Loads and initialises it. Fails, and says what to do, where there is none, or an older one, or
/// no GPU. The library stays loaded for good.
DriverRef loadDriver();

/// A failure that the user can mend: as PSRT_FAIL(Failed, ...), without the place in the runtime.
[[noreturn]] void refuse(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

} // namespace psrt::cuda

#endif
