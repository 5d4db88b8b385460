// Loading cuDNN.
#include "runtime/device/cuda/cudnn/Cudnn.h"
#include "runtime/core/Status.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace psrt::cuda {

static constexpr size_t kOldestVersion = 90000;
static constexpr const char *kUsual = "libcudnn.so.9";

std::string cudnnVersionText(size_t version) {
  size_t major = version >= kOldestVersion ? 10000 : 1000; // 8907 was 8.9.7
  return format("%zu.%zu.%zu", version / major, version % major / 100, version % 100);
}

void Cudnn::check(cudnnStatus_t status, const char *what) const {
  if (status == CUDNN_STATUS_SUCCESS)
    return;
  const char *name = getErrorString(status);
  char more[512] = "";
  getLastErrorString(more, sizeof(more));
  throw CudnnFailure(format("cuDNN failed %s: %s (%d)%s%s", what, name ? name : "unknown",
                            int(status), *more ? ": " : "", more));
}

/// What is at a path, or why it cannot be used.
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
    reason = format("%s has no %s", name, #symbol);                                                \
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
  CudnnRef result = open(isChosen ? chosen : kUsual, reason);
  if (!result && isChosen)
    refuse("PSRT_CUDNN=%s cannot be used (%s): name a libcudnn.so.9 of cuDNN 9.0 or later, or set "
           "it to off",
           chosen, reason.c_str());
  if (!result)
    std::fprintf(
        stderr,
        "note: attention and convolutions are the runtime's own, which are slower: cuDNN 9 is "
        "not here (%s); put libcudnn.so.9 where the loader looks, or set PSRT_CUDNN to "
        "its path, or to off\n",
        reason.c_str());
  return result;
}

} // namespace psrt::cuda
