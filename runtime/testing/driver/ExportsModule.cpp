// Implements the driver API's modules, kernels and host functions.
#include "runtime/testing/driver/Entry.h"
#include "runtime/testing/driver/Modules.h"
#include <algorithm>
#include <limits>

namespace psrt::fake {

namespace {

/// Writes `text` to the error-log buffer of the load options, truncated to the size of the buffer.
/// Sets the option CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES to the number of characters written.
void fillLog(const std::string &text, unsigned count, CUjit_option *options, void **values) {
  auto find = [&](CUjit_option option) -> void ** {
    CUjit_option *at = std::find(options, options + count, option);
    return at == options + count ? nullptr : values + (at - options);
  };
  void **buffer = find(CU_JIT_ERROR_LOG_BUFFER), **size = find(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  if (!buffer || !*buffer || !size || !*size)
    return;
  size_t room = reinterpret_cast<uintptr_t>(*size), length = std::min(text.size(), room - 1);
  auto *to = static_cast<char *>(*buffer);
  std::memcpy(to, text.data(), length);
  to[length] = 0;
  *size = reinterpret_cast<void *>(length);
}

} // namespace

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values) {
  return outsideCapture([&](Call &call) -> CUresult {
    if (!module || !image || (count > 0 && (!options || !values)))
      return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<Module> loaded;
    std::string log;
    CUresult result = loadModule(call.device, image, loaded, log);
    if (count > 0)
      fillLog(log, count, options, values);
    if (result == CUDA_SUCCESS)
      machine().modules.add(std::move(loaded), *module);
    return result;
  });
}

CUresult cuModuleUnload(CUmodule handle) {
  return outsideCapture([&](Call &) -> CUresult {
    Machine &m = machine();
    std::shared_ptr<Module> module = m.modules.find(handle);
    if (!module)
      return CUDA_ERROR_INVALID_HANDLE;
    for (const auto &function : m.functions.all())
      if (function->module == module)
        m.functions.remove(function.get());
    m.modules.remove(handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule handle, const char *name) {
  return inContext([&](Call &) -> CUresult {
    std::shared_ptr<Module> module = machine().modules.find(handle);
    if (!function || !name)
      return CUDA_ERROR_INVALID_VALUE;
    if (!module)
      return CUDA_ERROR_INVALID_HANDLE;
    std::shared_ptr<Function> found = findFunction(module, name);
    if (!found)
      return CUDA_ERROR_NOT_FOUND;
    machine().functions.add(std::move(found), *function);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  return inContext([&](Call &) -> CUresult {
    std::shared_ptr<Function> function = machine().functions.find(handle);
    if (!function)
      return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > 227 * 1024)
      return CUDA_ERROR_INVALID_VALUE;
    function->maxShared = uint32_t(value);
    return CUDA_SUCCESS;
  });
}

CUresult cuLaunchKernel(CUfunction handle, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                        CUstream streamHandle, void **parameters, void **extra) {
  return onStream(streamHandle, [&](Call &, const StreamRef &stream) -> CUresult {
    std::shared_ptr<Function> function = machine().functions.find(handle);
    if (!function || function->module->device != stream->device)
      return CUDA_ERROR_INVALID_HANDLE;
    if (gridY != 1 || gridZ != 1 || blockY != 1 || blockZ != 1) {
      complain("kernel '%s': the fake supports only one-dimensional grids and blocks",
               function->name.c_str());
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (gridX == 0 || gridX > unsigned(std::numeric_limits<int>::max()) || blockX == 0 ||
        blockX > 1024 || sharedBytes > function->maxShared || extra)
      return CUDA_ERROR_INVALID_VALUE;
    const std::vector<uint32_t> &sizes = function->parameterSizes;
    if (!sizes.empty() &&
        (!parameters || std::count(parameters, parameters + sizes.size(), nullptr)))
      return CUDA_ERROR_INVALID_VALUE;
    return submit(*stream, kernelOperation(function, gridX, blockX, sharedBytes, parameters));
  });
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  return onStream(handle, [&](Call &, const StreamRef &stream) -> CUresult {
    if (!function)
      return CUDA_ERROR_INVALID_VALUE;
    Operation operation{"host function", "host function", {}, {}};
    operation.run = [=]() -> CUresult {
      function(data);
      return CUDA_SUCCESS;
    };
    return submit(*stream, std::move(operation));
  });
}

} // namespace psrt::fake
