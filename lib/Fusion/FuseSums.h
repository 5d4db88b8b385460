// Fuses bias gradients into the matmuls that read the same operand.
#ifndef PARASHARD_LIB_FUSION_FUSESUMS_H
#define PARASHARD_LIB_FUSION_FUSESUMS_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Returns the uses of the summed operand by contractions that can compute the result of `reduce`.
/// Returns an empty list if a fused kernel computes the operand, because this kernel then also sums
/// the operand. `activations` is true if fuseActivations will fuse GELU derivatives into matmuls.
llvm::SmallVector<mlir::OpOperand *> findMatmulsWithSum(ps::ReduceOp reduce,
                                                        bool activations = false);

/// Fuses sums over the contracted dims of an operand into contractions that read the operand. Then
/// the matmul of a weight gradient also computes the bias gradient. Fuses a sum only if a kernel
/// would otherwise read the operand for this sum alone.
void fuseSums(mlir::Block &block);

} // namespace parashard::fusion

#endif
