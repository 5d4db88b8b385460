// Declares the check of a target's name, which flags, plan files and clusters share.
#ifndef PARASHARD_LIB_SUPPORT_TARGETNAME_H
#define PARASHARD_LIB_SUPPORT_TARGETNAME_H

#include "llvm/ADT/StringRef.h"

namespace parashard::support {

/// Returns true for `cpu`, `cpu:NAME`, `cuda:sm_NN` and `cuda:replay`. Code generation checks NAME
/// and NN.
bool isTargetName(llvm::StringRef text);

/// The target names that error messages suggest. Omits `cuda:replay` (docs/cuda.md).
inline constexpr const char *kTargetNames = "cpu[:NAME] or cuda:sm_NN";

} // namespace parashard::support

#endif
