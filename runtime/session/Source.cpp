// Finds the symbols of compiled programs.
#include "runtime/session/Source.h"
#include "runtime/core/Status.h"
#include <climits>
#include <dlfcn.h>
#include <unistd.h>

extern "C" {
extern const char psrt_program_json[] __attribute__((weak));
extern const uint64_t psrt_program_json_size __attribute__((weak));
extern const psrt::Kernel psrt_program_kernels[] __attribute__((weak));
extern const char psrt_program_image[] __attribute__((weak));
extern const uint64_t psrt_program_image_size __attribute__((weak));
extern const char psrt_check_program_json[] __attribute__((weak));
extern const uint64_t psrt_check_program_json_size __attribute__((weak));
extern const psrt::Kernel psrt_check_program_kernels[] __attribute__((weak));
extern const char psrt_check_program_image[] __attribute__((weak));
extern const uint64_t psrt_check_program_image_size __attribute__((weak));
}

namespace psrt {

ProgramSource linkedSource() {
  if (!psrt_program_json)
    return {};
  return {psrt_program_json,    psrt_program_json_size,
          psrt_program_kernels, executablePath(),
          psrt_program_image,   psrt_program_image ? psrt_program_image_size : 0};
}

ProgramSource linkedCheckSource() {
  if (!psrt_check_program_json)
    return {};
  return {psrt_check_program_json,    psrt_check_program_json_size,
          psrt_check_program_kernels, executablePath(),
          psrt_check_program_image,   psrt_check_program_image ? psrt_check_program_image_size : 0};
}

/// Returns the address of a symbol. Fails if the object does not define the symbol.
static void *symbol(void *handle, const char *name, const std::string &path) {
  void *result = dlsym(handle, name);
  if (!result)
    PSRT_FAIL(BadInput, "\"%s\" has no symbol %s: it is not an object that ps-compile wrote",
              path.c_str(), name);
  return result;
}

ProgramSource sourceOfObject(void *handle, const std::string &path) {
  ProgramSource result;
  result.json = static_cast<const char *>(symbol(handle, "psrt_program_json", path));
  result.size = *static_cast<const uint64_t *>(symbol(handle, "psrt_program_json_size", path));
  result.kernels = static_cast<const Kernel *>(symbol(handle, "psrt_program_kernels", path));
  result.path = path;
  if (void *image = dlsym(handle, "psrt_program_image")) {
    result.image = static_cast<const char *>(image);
    result.imageSize =
        *static_cast<const uint64_t *>(symbol(handle, "psrt_program_image_size", path));
  }
  return result;
}

std::string executablePath() {
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  return std::string(path, length > 0 ? size_t(length) : 0);
}

} // namespace psrt
