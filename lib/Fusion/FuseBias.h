// Fuses bias additions into matmuls.
#ifndef PARASHARD_LIB_FUSION_FUSEBIAS_H
#define PARASHARD_LIB_FUSION_FUSEBIAS_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Fuses added biases into the contractions that have no other use. The sum is then rounded once,
/// with the bias, instead of twice. Values must not depend on fusion or recomputation, so the
/// fusion ignores all uses of the biased sum.
void fuseBiases(mlir::Block &block);

} // namespace parashard::fusion

#endif
