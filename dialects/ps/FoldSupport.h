// Declares constant folding by `evaluate`, so that the folder and the reference evaluator agree.
#ifndef PARASHARD_DIALECTS_PS_FOLDSUPPORT_H
#define PARASHARD_DIALECTS_PS_FOLDSUPPORT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// Folds the only result of `op`, whose operands have the constant values `operands`. Returns null
/// if an operand is not constant (a null attribute), if the result has more than 2^16 elements, or
/// if the operands have more than 2^20 elements in total. `uniform` specifies that equal operand
/// elements give equal result elements. Then, splats of any size fold to a splat, without being
/// expanded.
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
