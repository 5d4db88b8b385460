// Declares constant folding by `evaluate`, so that the folder and the reference evaluator agree.
#ifndef PARASHARD_DIALECTS_PS_FOLDSUPPORT_H
#define PARASHARD_DIALECTS_PS_FOLDSUPPORT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// Folds the only result of `op` if all `operands` are constants; a null attribute is not a
/// constant. Returns null if the result has more than 2^16 elements, or the operands more than 2^20
/// in total. A `uniform` op gives equal result elements for equal operand elements. Such an op
/// folds splats of any size to a splat without expanding them.
mlir::OpFoldResult foldByEvaluation(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands,
                                    bool uniform);

/// Folds an op that only moves elements of its operands. Equal splats fold to a splat of any size.
/// Other constants fold within the limits of `foldByEvaluation`.
mlir::OpFoldResult foldMovement(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands);

/// Returns the element of a splat as a scalar, without expanding the splat.
Tensor getSplatElement(mlir::DenseElementsAttr splat);

/// Returns whether `attr` is a splat of `value`.
bool isSplat(mlir::Attribute attr, double value);

} // namespace parashard::ps

#endif
