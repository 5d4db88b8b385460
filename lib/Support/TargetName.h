// Declares the check of a target's name, which flags, plan files and clusters share.
#ifndef PARASHARD_LIB_SUPPORT_TARGETNAME_H
#define PARASHARD_LIB_SUPPORT_TARGETNAME_H

#include "llvm/ADT/StringRef.h"

namespace parashard::support {

/// Returns true for `cpu`, `cpu:NAME`, `cuda:sm_NN` and `cuda:replay`. Code generation checks that
/// NAME and NN exist.
bool isTargetName(llvm::StringRef text);

/// The lowest architecture of GPUs for which kernels are compiled: the first with bf16.
inline constexpr unsigned kMinArchitecture = 80;

/// Returns the architecture of a target, such as 90 for `cuda:sm_90`. Ignores a letter suffix.
/// Returns 0 for targets without an architecture.
unsigned getArchitecture(llvm::StringRef target);

/// The target names that error messages suggest. Omits `cuda:replay` (docs/cuda.md).
inline constexpr const char *kTargetNames = "cpu[:NAME] or cuda:sm_NN";

} // namespace parashard::support

#endif
