// GELUs, and their derivatives, that matmuls compute by themselves.
#ifndef PARASHARD_LIB_FUSION_FUSEACTIVATION_H
#define PARASHARD_LIB_FUSION_FUSEACTIVATION_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// The contraction that could multiply what it yields, for `grad` alone, by the derivative; null:
/// none could.
ps::ContractOp findMatmul(ps::GeluGradOp grad);

/// Gives contractions the GELU that is taken of them and the derivative that they are multiplied
/// by. Values change: both are then of sums that are not rounded. Behind fuseBiases; a derivative
/// only where what it is taken at is in memory.
void fuseActivations(mlir::Block &block);

} // namespace parashard::fusion

#endif
