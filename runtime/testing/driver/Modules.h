// Loads modules. A replay image (the kernels of a program, compiled for the CPU) is loaded as a
// shared object of this process. PTX text is accepted, but its kernels cannot run.
#ifndef PSRT_TESTING_DRIVER_MODULES_H
#define PSRT_TESTING_DRIVER_MODULES_H

#include "runtime/testing/driver/Machine.h"
#include <string>
#include <vector>

namespace psrt::fake {

struct Module {
  Device *device = nullptr;
  void *library = nullptr; ///< set for replay images
  int file = -1;           ///< file that `library` was loaded from
  std::string ptx;         ///< set for PTX text
  ~Module();
};

struct Function {
  std::shared_ptr<Module> module;
  std::string name;
  void (*body)(void **parameters) = nullptr; ///< null for PTX
  std::vector<uint32_t> parameterSizes;
  uint32_t maxShared = 48 * 1024;
};

/// Loads an image as cuModuleLoadDataEx does; `log` receives the reason for an error.
CUresult loadModule(Device *device, const void *image, std::shared_ptr<Module> &module,
                    std::string &log);

/// Returns the kernel `name`, or null.
std::shared_ptr<Function> findFunction(const std::shared_ptr<Module> &module,
                                       const std::string &name);

/// Returns a launch of the function, with a copy of the parameters.
Operation kernelOperation(const std::shared_ptr<Function> &function, uint32_t grid, uint32_t block,
                          uint32_t sharedBytes, void **parameters);

} // namespace psrt::fake

#endif
