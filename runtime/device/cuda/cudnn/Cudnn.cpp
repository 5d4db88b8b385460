// Loads cuDNN and reports its errors.
#include "runtime/device/cuda/cudnn/Cudnn.h"
#include "runtime/core/Status.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace psrt::cuda {

static constexpr size_t kOldestVersion = 90000;
static constexpr const char *kDefaultName = "libcudnn.so.9";

std::string cudnnVersionText(size_t version) {
  size_t major = version >= kOldestVersion ? 10000 : 1000; // before cuDNN 9, e.g. 8907 for 8.9.7
  return format("%zu.%zu.%zu", version / major, version % major / 100, version % 100);
}

void Cudnn::check(cudnnStatus_t status, const char *action) const {
  if (status == CUDNN_STATUS_SUCCESS)
    return;
  const char *name = getErrorString(status);
  char more[512] = "";
  getLastErrorString(more, sizeof(more));
  throw CudnnFailure(format("cuDNN failed %s: %s (%d)%s%s", action, name ? name : "unknown",
                            int(status), *more ? ": " : "", more));
}

/// Loads the library `name`. Returns null and sets `reason` if the library cannot be used.
static CudnnRef open(const char *name, std::string &reason) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *text = dlerror();
    reason = text ? text : name;
    return nullptr;
  }
  auto result = std::make_shared<Cudnn>();
#define PSRT_LOAD(field, symbol, type, arguments)                                                  \
  result->field = reinterpret_cast<type(*) arguments>(dlsym(library, #symbol));
  PSRT_CUDNN_FUNCTIONS(PSRT_LOAD)
#undef PSRT_LOAD
  if (result->getVersion)
    result->version = result->getVersion();
  if (result->version < kOldestVersion) {
    reason = format("%s is cuDNN %s", name, cudnnVersionText(result->version).c_str());
    return nullptr;
  }
#define PSRT_CHECK(field, symbol, type, arguments)                                                 \
  if (!result->field) {                                                                            \
    reason = format("%s lacks %s", name, #symbol);                                                 \
    return nullptr;                                                                                \
  }
  PSRT_CUDNN_FUNCTIONS(PSRT_CHECK)
#undef PSRT_CHECK
  return result;
}

CudnnRef loadCudnn(const Driver &driver) {
  const char *chosen = std::getenv("PSRT_CUDNN");
  bool isChosen = chosen && *chosen;
  if (isChosen ? std::strcmp(chosen, "off") == 0 : driver.isFake())
    return nullptr;
  std::string reason;
  CudnnRef result = open(isChosen ? chosen : kDefaultName, reason);
  if (!result && isChosen)
    refuse(
        "cannot use PSRT_CUDNN=%s (%s): set it to the path of libcudnn.so.9 of cuDNN 9.0 or later, "
        "or to off",
        chosen, reason.c_str());
  if (!result)
    std::fprintf(
        stderr,
        "note: cuDNN is not used; attention and convolutions run on slower fallback kernels: "
        "cuDNN 9 was not found (%s); put libcudnn.so.9 into a folder of LD_LIBRARY_PATH, or "
        "set PSRT_CUDNN to its path or to off\n",
        reason.c_str());
  return result;
}

} // namespace psrt::cuda
