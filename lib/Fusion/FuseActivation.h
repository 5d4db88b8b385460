// Fuses GELUs and their derivatives into matmuls.
#ifndef PARASHARD_LIB_FUSION_FUSEACTIVATION_H
#define PARASHARD_LIB_FUSION_FUSEACTIVATION_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Returns the contraction that can multiply its result by the derivative in `grad`, if `grad` is
/// the only user; else null.
ps::ContractOp findMatmul(ps::GeluGradOp grad);

/// Fuses GELUs into the contractions that compute their inputs, and GELU derivatives into the
/// contractions that compute the cotangents. This changes values: GELUs and derivatives use matmul
/// results before rounding. Runs after fuseBiases. A derivative is only fused if the GELU's input
/// is in memory.
void fuseActivations(mlir::Block &block);

} // namespace parashard::fusion

#endif
