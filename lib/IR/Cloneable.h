// Declares findCloneableOps, for ops that are cheaper to clone into each segment than to pass
// between segments.
#ifndef PARASHARD_LIB_IR_CLONEABLE_H
#define PARASHARD_LIB_IR_CLONEABLE_H

#include "dialects/ps/Ps.h"

namespace parashard::ir {

/// Returns the ops of `function` that every segment clones: constants, iotas, shard indices,
/// reads of variables that the function does not write, and conversions and views of such values.
llvm::DenseSet<mlir::Operation *> findCloneableOps(mlir::func::FuncOp function);

} // namespace parashard::ir

#endif
