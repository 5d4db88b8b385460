// Declares findCloneableOps, for ops that are cheaper to clone into each segment than to pass
// between segments.
#ifndef PARASHARD_LIB_IR_CLONEABLE_H
#define PARASHARD_LIB_IR_CLONEABLE_H

#include "dialects/ps/Ps.h"

namespace parashard::ir {

/// Returns the cloneable ops of `function`. A segment that uses the result of a cloneable op clones
/// the op, instead of receiving the result from another segment. Cloneable are constants, iotas,
/// shard indices, reads of variables that the function does not write, and conversions and movement
/// ops (such as slices) on results of cloneable ops.
llvm::DenseSet<mlir::Operation *> findCloneableOps(mlir::func::FuncOp function);

} // namespace parashard::ir

#endif
