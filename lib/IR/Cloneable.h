// Declares `findCloneableOps`. Segments clone cheap ops, because passing a result between segments
// costs more than recomputing the result.
#ifndef PARASHARD_LIB_IR_CLONEABLE_H
#define PARASHARD_LIB_IR_CLONEABLE_H

#include "dialects/ps/Ps.h"

namespace parashard::ir {

/// Returns the cloneable ops of `function`. A segment that uses the result of a cloneable op clones
/// the op, instead of receiving the result. These ops are cloneable: constants, iotas, shard
/// indices, and reads of variables that the function does not write. Conversions, shard slices and
/// movement ops (such as reshapes) are cloneable if all of their operands are results of cloneable
/// ops.
llvm::DenseSet<mlir::Operation *> findCloneableOps(mlir::func::FuncOp function);

} // namespace parashard::ir

#endif
