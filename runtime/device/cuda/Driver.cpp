// Loads the CUDA driver and reports its errors.
#include "runtime/device/cuda/Driver.h"
#include "runtime/core/Status.h"
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

namespace psrt::cuda {

/// CUDA 12.0: the first version whose driver accepts the PTX that ps-compile writes.
static constexpr int kOldestVersion = 12000;

void refuse(const char *pattern, ...) {
  char text[4096];
  va_list args;
  va_start(args, pattern);
  std::vsnprintf(text, sizeof(text), pattern, args);
  va_end(args);
  fail(StatusCode::Failed, "", 0, text);
}

void Driver::check(CUresult result, const char *action, const char *file, int line) const {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = nullptr, *text = nullptr;
  getErrorName(result, &name);
  getErrorString(result, &text);
  fail(StatusCode::Failed, file, line,
       format("the CUDA driver failed %s: %s (%d), %s", action, name ? name : "unknown",
              int(result), text ? text : "no text"));
}

static std::string driverName() {
  const char *chosen = std::getenv("PSRT_CUDA_DRIVER");
  return chosen && *chosen ? chosen : "libcuda.so.1";
}

static void *findSymbol(void *library, const char *symbol, const std::string &name) {
  void *result = dlsym(library, symbol);
  if (!result)
    refuse("the CUDA driver %s lacks %s: the driver is too old; install one for CUDA 12.0 or newer",
           name.c_str(), symbol);
  return result;
}

static void checkVersion(const Driver &driver) {
  int version = 0;
  driver.check(driver.driverGetVersion(&version), "to return its version");
  if (version < kOldestVersion)
    refuse("this machine's CUDA driver is for CUDA %d.%d, but the program needs 12.0; install a "
           "newer driver, or compile with --target cpu",
           version / 1000, version % 1000 / 10);
}

static void initialize(const Driver &driver, const std::string &name) {
  CUresult result = driver.init(0);
  if (result == CUDA_ERROR_STUB_LIBRARY)
    refuse("no CUDA driver on this machine (%s is the toolkit's stub): use a "
           "machine with a driver, or --target cpu",
           name.c_str());
  int count = 0;
  if (result == CUDA_SUCCESS)
    driver.check(driver.deviceGetCount(&count), "to count the GPUs");
  if (result == CUDA_ERROR_NO_DEVICE || (result == CUDA_SUCCESS && count == 0))
    refuse("no GPU on this machine (the CUDA driver is installed; CUDA_VISIBLE_DEVICES is \"%s\"): "
           "use a machine with a GPU, or --target cpu",
           std::getenv("CUDA_VISIBLE_DEVICES") ? std::getenv("CUDA_VISIBLE_DEVICES") : "");
  driver.check(result, "to initialize");
}

DriverRef loadDriver() {
  std::string name = driverName();
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    refuse("no CUDA driver on this machine (%s): use a machine with a driver, or "
           "--target cpu",
           name.c_str());
  auto driver = std::make_shared<Driver>();
#define PSRT_LOAD(field, symbol, arguments)                                                        \
  driver->field = reinterpret_cast<CUresult(*) arguments>(findSymbol(library, #symbol, name));
  PSRT_CUDA_FUNCTIONS(PSRT_LOAD)
#undef PSRT_LOAD
  driver->access = reinterpret_cast<decltype(driver->access)>(dlsym(library, "psrt_fake_access"));
  driver->release =
      reinterpret_cast<decltype(driver->release)>(dlsym(library, "psrt_fake_release"));
  driver->acquire =
      reinterpret_cast<decltype(driver->acquire)>(dlsym(library, "psrt_fake_acquire"));
  initialize(*driver, name);
  checkVersion(*driver);
  return driver;
}

} // namespace psrt::cuda
