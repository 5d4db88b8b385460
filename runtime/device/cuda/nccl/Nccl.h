// Loads NCCL from $PSRT_NCCL or libnccl.so.2 if ranks use several GPUs.
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
  int version = 0; ///< e.g. 21805 for 2.18.5

  /// Fails with NCCL's error text unless the call succeeded or is still in progress. `action`
  /// completes "NCCL failed ...", e.g. "to start a collective".
  void check(ncclResult_t result, ncclComm_t comm, const char *action) const;
};

using NcclRef = std::shared_ptr<const Nccl>;

/// Loads NCCL, which is never unloaded. Fails if NCCL is not found or too old. The error says what
/// to do.
NcclRef loadNccl();
/// Returns true if NCCL can be loaded.
bool hasNccl();
/// Returns the version as text, e.g. "2.18.5".
std::string versionText(int version);

} // namespace psrt::nccl

#endif
