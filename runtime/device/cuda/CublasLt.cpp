// Loads cuBLASLt and its functions.
#include "runtime/device/cuda/CublasLt.h"
#include "runtime/core/Status.h"
#include <cstdlib>
#include <dlfcn.h>
#include <iterator>

namespace psrt::cuda {

void CublasLt::check(cublasStatus_t status, const char *action, const char *file, int line) const {
  if (status == CUBLAS_STATUS_SUCCESS)
    return;
  const char *name = getStatusName(status);
  fail(StatusCode::Failed, file, line,
       format("cuBLASLt failed %s: %s (%d)", action, name ? name : "unknown", int(status)));
}

static void *openLibrary(std::string &name) {
  const char *chosen = std::getenv("PSRT_CUBLASLT");
  if (chosen && *chosen) {
    name = chosen;
    return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
  }
  for (const char *candidate : {"libcublasLt.so.13", "libcublasLt.so.12"})
    if (void *library = dlopen(name.assign(candidate).c_str(), RTLD_NOW | RTLD_LOCAL))
      return library;
  return nullptr;
}

CublasLtRef loadCublasLt() {
  std::string name;
  void *library = openLibrary(name);
  if (!library) {
    const char *reason = dlerror();
    refuse("cannot load cuBLASLt, which the program needs for matmuls (%s): put "
           "libcublasLt.so.13 or .12 into a folder of LD_LIBRARY_PATH (the library comes with the "
           "CUDA toolkit and with PyTorch), or set PSRT_CUBLASLT to its path",
           reason ? reason : name.c_str());
  }
  auto result = std::make_shared<CublasLt>();
#define PSRT_LOAD(field, symbol, type, arguments)                                                  \
  result->field = reinterpret_cast<type(*) arguments>(dlsym(library, #symbol));                    \
  if (!result->field)                                                                              \
    refuse("%s lacks %s: the library is too old; install cuBLASLt 12 or 13", name.c_str(), #symbol);
  PSRT_CUBLASLT_FUNCTIONS(PSRT_LOAD)
#undef PSRT_LOAD
  return result;
}

std::string toText(const cublasLtMatmulAlgo_t &algorithm) {
  std::string result;
  for (uint64_t word : algorithm.data)
    result += format("%016llx", (unsigned long long)word);
  return result;
}

std::optional<cublasLtMatmulAlgo_t> toAlgorithm(const std::string &text) {
  cublasLtMatmulAlgo_t result{};
  if (text.size() != 16 * std::size(result.data) ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return std::nullopt;
  for (size_t i = 0; i < std::size(result.data); ++i)
    result.data[i] = std::strtoull(text.substr(16 * i, 16).c_str(), nullptr, 16);
  return result;
}

Blas::Blas(const GpuRef &gpu, std::shared_ptr<Algorithms> given)
    : gpu(gpu), library(loadCublasLt()), algorithms(std::move(given)),
      workspace(gpu, kWorkspaceBytes, "the cuBLASLt workspace") {
  algorithms->open(library->getVersion());
  gpu->enter();
  library->check(library->create(&handle), "to initialize");
}

Blas::~Blas() {
  gpu->tryToEnter();
  library->destroy(handle);
}

} // namespace psrt::cuda
