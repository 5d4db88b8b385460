// Biases that matmuls add by themselves.
#ifndef PARASHARD_LIB_FUSION_FUSEBIAS_H
#define PARASHARD_LIB_FUSION_FUSEBIAS_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Gives contractions the biases that are added to them, where nothing else reads the contraction.
/// The sum is rounded once, with the bias, not before it as well; as values must not depend on what
/// is fused or recomputed, it does not matter what becomes of the sum.
void fuseBiases(mlir::Block &block);

} // namespace parashard::fusion

#endif
