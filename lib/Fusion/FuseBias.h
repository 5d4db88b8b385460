// Fuses bias additions into matmuls.
#ifndef PARASHARD_LIB_FUSION_FUSEBIAS_H
#define PARASHARD_LIB_FUSION_FUSEBIAS_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Fuses a bias addition into a contraction if the contraction's result has no other use. The
/// result is then rounded once, with the bias, instead of twice. Does not consider how the biased
/// result is used, so that rounding does not depend on other fusions or on recomputation.
void fuseBiases(mlir::Block &block);

} // namespace parashard::fusion

#endif
