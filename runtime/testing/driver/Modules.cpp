// Loads images and creates launches of their kernels.
#include "runtime/testing/driver/Modules.h"
#include "runtime/testing/driver/Blocks.h"
#include "runtime/testing/driver/Machine.h"
#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

namespace psrt::fake {

Module::~Module() {
  if (library)
    dlclose(library);
  if (file >= 0)
    close(file);
}

namespace {

/// Returns the size of an ELF file in memory: the end of its section headers or of its last
/// segment.
size_t elfSize(const void *image) {
  auto *bytes = static_cast<const char *>(image);
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  size_t size = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    std::memcpy(&segment, bytes + header.e_phoff + size_t(i) * header.e_phentsize, sizeof(segment));
    size = std::max(size, size_t(segment.p_offset + segment.p_filesz));
  }
  return size;
}

/// Writes `size` bytes to a file. Returns false on failure.
bool writeFile(int file, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t written = write(file, bytes, size);
    if (written <= 0)
      return false;
    bytes += written;
    size -= size_t(written);
  }
  return true;
}

/// Loads a replay image through an unnamed file, so that each load is a separate copy.
CUresult loadReplay(const void *image, Module &module, std::string &log) {
  module.file = memfd_create("parashard-replay", MFD_CLOEXEC);
  if (module.file < 0 || !writeFile(module.file, static_cast<const char *>(image), elfSize(image)))
    return CUDA_ERROR_OUT_OF_MEMORY;
  // The file stays open as long as the module is loaded: the dynamic loader identifies a library by
  // its path, so the number of the descriptor must not be reused.
  std::string path = "/proc/self/fd/" + std::to_string(module.file);
  module.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!module.library) {
    log = std::string("replay image: ") + dlerror();
    return CUDA_ERROR_INVALID_IMAGE;
  }
  if (void *hooks = dlsym(module.library, "psrt_replay_hooks"))
    *static_cast<const PsrtReplayHooks **>(hooks) = &replayHooks;
  return CUDA_SUCCESS;
}

/// Returns the word that follows directive `name` in PTX text.
std::string directive(const std::string &ptx, const std::string &name) {
  size_t at = ptx.find(name);
  if (at == std::string::npos)
    return {};
  size_t begin = ptx.find_first_not_of(" \t", at + name.size());
  size_t end = ptx.find_first_of(" \t\r\n,;", begin);
  return begin == std::string::npos ? std::string() : ptx.substr(begin, end - begin);
}

/// Loads PTX text after the first checks of the driver's PTX compiler.
CUresult loadPtx(const char *text, Module &module, std::string &log) {
  module.ptx = text;
  std::string version = directive(module.ptx, ".version"),
              target = directive(module.ptx, ".target");
  if (version.empty() || !target.starts_with("sm_")) {
    log = "ptxas fatal   : Missing .version or .target directive at start of file";
    return CUDA_ERROR_INVALID_PTX;
  }
  if (std::strtod(version.c_str(), nullptr) > 9.0) {
    log = "ptxas fatal   : Unsupported .version " + version + "; current version is '9.0'";
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  const Settings &settings = machine().settings;
  if (std::strtol(target.c_str() + 3, nullptr, 10) > settings.major * 10 + settings.minor) {
    log = "ptxas fatal   : Program with .target '" + target + "' cannot be compiled to 'sm_" +
          std::to_string(settings.major * 10 + settings.minor) + "'";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  return CUDA_SUCCESS;
}

bool isText(const char *bytes) {
  size_t blank = std::strspn(bytes, " \t\r\n");
  return std::strncmp(bytes + blank, "//", 2) == 0 ||
         std::strncmp(bytes + blank, ".version", 8) == 0;
}

/// Returns true if the PTX text has the kernel.
bool hasEntry(const std::string &ptx, const std::string &name) {
  for (size_t at = ptx.find(".entry"); at != std::string::npos; at = ptx.find(".entry", at + 1)) {
    size_t begin = ptx.find_first_not_of(" \t\r\n", at + 6);
    size_t end = ptx.find_first_of(" \t\r\n(", begin);
    if (begin != std::string::npos && ptx.substr(begin, end - begin) == name)
      return true;
  }
  return false;
}

} // namespace

CUresult loadModule(Device *device, const void *image, std::shared_ptr<Module> &module,
                    std::string &log) {
  module = std::make_shared<Module>();
  module->device = device;
  auto *bytes = static_cast<const char *>(image);
  if (std::strncmp(bytes, ELFMAG, SELFMAG) == 0)
    return loadReplay(image, *module, log);
  if (isText(bytes))
    return loadPtx(bytes, *module, log);
  log = "the image is neither an ELF file nor PTX text";
  return CUDA_ERROR_INVALID_IMAGE;
}

std::shared_ptr<Function> findFunction(const std::shared_ptr<Module> &module,
                                       const std::string &name) {
  auto function = std::make_shared<Function>();
  function->module = module;
  function->name = name;
  if (!module->library)
    return hasEntry(module->ptx, name) ? function : nullptr;
  void *body = dlsym(module->library, name.c_str());
  auto *sizes =
      static_cast<const uint32_t *>(dlsym(module->library, (name + "_parameters").c_str()));
  if (body && !sizes)
    complain("kernel '%s' lacks its array '%s_parameters'", name.c_str(), name.c_str());
  if (!body || !sizes)
    return nullptr;
  function->body = reinterpret_cast<void (*)(void **)>(body);
  function->parameterSizes.assign(sizes + 1, sizes + 1 + sizes[0]);
  return function;
}

namespace {

/// A copy of the parameters at the time of the launch.
struct Parameters {
  static constexpr size_t alignment = 64;
  struct alignas(alignment) Line {
    char bytes[alignment];
  };
  std::vector<Line> memory;
  std::vector<void *> pointers;

  Parameters(const std::vector<uint32_t> &sizes, void **values) {
    size_t lines = 0;
    for (uint32_t size : sizes)
      lines += (size + alignment - 1) / alignment;
    memory.resize(lines);
    Line *next = memory.data();
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::memcpy(static_cast<void *>(next), values[i], sizes[i]);
      pointers.push_back(next);
      next += (sizes[i] + alignment - 1) / alignment;
    }
  }
};

} // namespace

Operation kernelOperation(const std::shared_ptr<Function> &function, uint32_t grid, uint32_t block,
                          uint32_t sharedBytes, void **parameters) {
  Operation operation{"kernel", function->name, {}, {}};
  if (!function->body) {
    operation.run = [] { return CUDA_ERROR_NO_BINARY_FOR_GPU; };
    return operation;
  }
  auto copy = std::make_shared<Parameters>(function->parameterSizes, parameters);
  unsigned microseconds = machine().settings.kernelTime;
  operation.run = [=]() -> CUresult {
    usleep(microseconds);
    Launch launch{function->name, function->body, copy->pointers.data(), grid, block, sharedBytes};
    return runBlocks(launch) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
  };
  return operation;
}

} // namespace psrt::fake
