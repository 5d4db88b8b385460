// Which ops are cheaper to build again than to pass on.
#ifndef PARASHARD_LIB_IR_CLONEABLE_H
#define PARASHARD_LIB_IR_CLONEABLE_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// The ops of `function` that every segment builds for itself: constants, index sequences, reads
/// of variables that the function does not write, and what only moves or converts those.
llvm::DenseSet<mlir::Operation *> findCloneableOps(mlir::func::FuncOp function);

} // namespace parashard::ps

#endif
