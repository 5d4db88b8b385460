// Runs passes that are given as text.
#ifndef PARASHARD_LIB_DRIVER_WALK_H
#define PARASHARD_LIB_DRIVER_WALK_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::driver {

/// Runs passes of a level without verification, each given as text, such as "ps-fuse{sums=true}".
llvm::LogicalResult runTransforms(mlir::ModuleOp module, llvm::ArrayRef<std::string> passes);

} // namespace parashard::driver

#endif
