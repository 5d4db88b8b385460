// Fuses bias additions into matmuls.
#ifndef PARASHARD_LIB_FUSION_FUSEBIAS_H
#define PARASHARD_LIB_FUSION_FUSEBIAS_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Fuses a bias addition into a contraction if the contraction's result has no other use. The
/// result is then rounded once, with the bias, instead of twice. The uses of the sum do not matter.
/// Otherwise, rounding would depend on other fusion and on recomputation.
void fuseBiases(mlir::Block &block);

} // namespace parashard::fusion

#endif
