// NCCL, loaded when ranks are on several GPUs: $PSRT_NCCL, or libnccl.so.2.
#ifndef PSRT_DEVICE_CUDA_NCCL_NCCL_H
#define PSRT_DEVICE_CUDA_NCCL_NCCL_H

#include "runtime/device/cuda/nccl/NcclApi.h"
#include <memory>
#include <string>

namespace psrt::nccl {

struct Nccl {
#define PSRT_FIELD(name, symbol, result, arguments) result(*name) arguments = nullptr;
  PSRT_NCCL_FUNCTIONS(PSRT_FIELD)
  PSRT_NCCL_OPTIONAL_FUNCTIONS(PSRT_FIELD)
#undef PSRT_FIELD
  int version = 0; ///< 21805 for 2.18.5

  /// Fails with NCCL's own words unless a call went well, or is under way; `what` it did: "to start
  /// a collective".
  void check(ncclResult_t result, ncclComm_t comm, const char *what) const;
};

using NcclRef = std::shared_ptr<const Nccl>;

/// Fails, and says what to do, where there is none or an old one. It stays loaded for good.
NcclRef loadNccl();
/// Whether it can be loaded.
bool hasNccl();
/// "2.18.5"
std::string versionText(int version);

} // namespace psrt::nccl

#endif
