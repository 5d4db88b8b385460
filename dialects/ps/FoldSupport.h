// Constant folding through `evaluate`: the folder and the reference evaluator agree by
// construction.
#ifndef PARASHARD_DIALECTS_PS_FOLDSUPPORT_H
#define PARASHARD_DIALECTS_PS_FOLDSUPPORT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// The value of `op`'s only result when all `operands` are constants (one attribute an operand,
/// null when it is none) and the result is small; null otherwise. A splat in, a splat out is folded
/// at any size by an op that is `uniform` (equal elements in give equal elements out).
mlir::OpFoldResult foldByEvaluation(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands,
                                    bool uniform);

/// True when `attr` is a splat whose value is `value`.
bool isSplat(mlir::Attribute attr, double value);

} // namespace parashard::ps

#endif
