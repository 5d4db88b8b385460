// Modules: replay images as shared objects of this process, and PTX text, which loads but does not
// run.
#ifndef PSRT_TESTING_DRIVER_MODULES_H
#define PSRT_TESTING_DRIVER_MODULES_H

#include "runtime/testing/driver/Machine.h"
#include <string>
#include <vector>

namespace psrt::fake {

struct Module {
  Device *device = nullptr;
  void *library = nullptr; ///< of a replay image
  int file = -1;           ///< what `library` was loaded from
  std::string ptx;         ///< of PTX text
  ~Module();
};

struct Function {
  std::shared_ptr<Module> module;
  std::string name;
  void (*body)(void **parameters) = nullptr; ///< null: PTX
  std::vector<uint32_t> parameterSizes;
  uint32_t mostShared = 48 * 1024;
};

/// Loads an image as cuModuleLoadDataEx; `log` says what is wrong with it.
CUresult loadModule(Device *device, const void *image, std::shared_ptr<Module> &module,
                    std::string &log);

/// The kernel `name`, or null.
std::shared_ptr<Function> findFunction(const std::shared_ptr<Module> &module,
                                       const std::string &name);

/// A launch of the function with a copy of its parameters.
Operation kernelOperation(const std::shared_ptr<Function> &function, uint32_t grid, uint32_t block,
                          uint32_t sharedBytes, void **parameters);

} // namespace psrt::fake

#endif
