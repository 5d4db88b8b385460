// Fuses GELUs and their derivatives into matmuls.
#ifndef PARASHARD_LIB_FUSION_FUSEACTIVATION_H
#define PARASHARD_LIB_FUSION_FUSEACTIVATION_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Returns the contraction that computes the cotangent operand of `grad`. Returns null if the
/// contraction has another user, or cannot multiply its result by the derivative.
ps::ContractOp findMatmul(ps::GeluGradOp grad);

/// Fuses tanh-GELUs into the contractions that compute their inputs, and their derivatives into the
/// contractions that compute the cotangents. Values change, because the epilogues use matmul
/// results before rounding. Runs after fuseBiases. A derivative is only fused if the GELU's input
/// is in memory.
void fuseActivations(mlir::Block &block);

} // namespace parashard::fusion

#endif
