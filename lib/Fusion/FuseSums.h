// Sums over rows that matmuls make of their operands.
#ifndef PARASHARD_LIB_FUSION_FUSESUMS_H
#define PARASHARD_LIB_FUSION_FUSESUMS_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Contractions that could make what `reduce` yields, of an operand that they read anyway, and that
/// operand's use. None where a kernel makes it: that adds it up on the way. `activations`: matmuls
/// will multiply by the derivatives of GELUs.
llvm::SmallVector<mlir::OpOperand *> findMatmulsWithSum(ps::ReduceOp reduce,
                                                         bool activations = false);

/// Gives contractions the sums over the contracted dims of an operand that they read anyway: the
/// gradient of a bias beside that of its weight. Only where a kernel would read the operand for
/// the sums alone.
void fuseSums(mlir::Block &block);

} // namespace parashard::fusion

#endif
