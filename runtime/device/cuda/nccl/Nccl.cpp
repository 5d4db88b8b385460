// Loads NCCL and its functions.
#include "runtime/device/cuda/nccl/Nccl.h"
#include "runtime/core/Status.h"
#include "runtime/device/cuda/Driver.h"
#include <cstdlib>
#include <dlfcn.h>

namespace psrt::nccl {

using cuda::refuse;

static constexpr int kOldestVersion = 21800; ///< first version with ncclCommSplit

std::string versionText(int version) {
  return format("%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

void Nccl::check(ncclResult_t result, ncclComm_t comm, const char *action) const {
  if (result == ncclSuccess || result == ncclInProgress)
    return;
  const char *text = getErrorString(result), *more = getLastError(comm);
  PSRT_FAIL(Failed, "NCCL failed %s: %s (%d)%s%s", action, text ? text : "unknown", int(result),
            more && *more ? ": " : "", more ? more : "");
}

static std::string libraryName() {
  const char *chosen = std::getenv("PSRT_NCCL");
  return chosen && *chosen ? chosen : "libnccl.so.2";
}

bool hasNccl() { return dlopen(libraryName().c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr; }

NcclRef loadNccl() {
  std::string name = libraryName();
  void *library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    refuse("cannot load NCCL, which ranks on several GPUs need to communicate (%s): put "
           "libnccl.so.2 into a folder of LD_LIBRARY_PATH (PyTorch installs it in "
           "site-packages/nvidia/nccl/lib), or set PSRT_NCCL to its path",
           reason ? reason : name.c_str());
  }
  auto result = std::make_shared<Nccl>();
#define PSRT_LOAD(field, symbol, type, arguments)                                                  \
  result->field = reinterpret_cast<type(*) arguments>(dlsym(library, #symbol));
  PSRT_NCCL_FUNCTIONS(PSRT_LOAD)
  PSRT_NCCL_OPTIONAL_FUNCTIONS(PSRT_LOAD)
#undef PSRT_LOAD
  if (result->getVersion)
    result->getVersion(&result->version);
  if (result->version < kOldestVersion)
    refuse("%s is NCCL %s, but the program needs %s or later", name.c_str(),
           versionText(result->version).c_str(), versionText(kOldestVersion).c_str());
#define PSRT_CHECK(field, symbol, type, arguments)                                                 \
  if (!result->field)                                                                              \
    refuse("%s (NCCL %s) lacks %s", name.c_str(), versionText(result->version).c_str(), #symbol);
  PSRT_NCCL_FUNCTIONS(PSRT_CHECK)
#undef PSRT_CHECK
  return result;
}

} // namespace psrt::nccl
