// Fuses bias additions into matmuls.
#ifndef PARASHARD_LIB_FUSION_FUSEBIAS_H
#define PARASHARD_LIB_FUSION_FUSEBIAS_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Fuses a bias addition into a contraction if the contraction's result has no other use. The
/// result is then rounded once, with the bias, instead of twice. The decision ignores the uses of
/// the sum. Otherwise, the rounding of values would depend on other fusion and on recomputation.
void fuseBiases(mlir::Block &block);

} // namespace parashard::fusion

#endif
