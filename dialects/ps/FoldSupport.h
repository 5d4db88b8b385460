// Constant folding through `evaluate`: the folder and the reference evaluator agree by
// construction.
#ifndef PARASHARD_DIALECTS_PS_FOLDSUPPORT_H
#define PARASHARD_DIALECTS_PS_FOLDSUPPORT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// The value of `op`'s only result when all `operands` are constants (one attribute an operand,
/// null when it is none), the result has at most 2^16 elements and the operands at most 2^20 in
/// all; null otherwise. A splat in, a splat out is folded at any size by an op that is `uniform`
/// (equal elements in give equal elements out); a splat is then not expanded.
mlir::OpFoldResult foldByEvaluation(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands,
                                    bool uniform);

/// Folds an op whose result has no other elements than its operands: equal splats give a splat of
/// any size, other constants are evaluated within the limits of `foldByEvaluation`.
mlir::OpFoldResult foldMovement(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands);

/// Returns the one element of a splat as a scalar; the splat is not expanded.
Tensor getSplatElement(mlir::DenseElementsAttr splat);

/// True when `attr` is a splat whose value is `value`.
bool isSplat(mlir::Attribute attr, double value);

} // namespace parashard::ps

#endif
