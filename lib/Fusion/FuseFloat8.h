// Matmuls of 8-bit floats.
#ifndef PARASHARD_LIB_FUSION_FUSEFLOAT8_H
#define PARASHARD_LIB_FUSION_FUSEFLOAT8_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Gives contractions whose operands are both dequantized the 8-bit numbers and their units. What a
/// unit is a power of two for: the sums are the same, up to their order. Contractions with dims
/// that are no multiples of 16 stay as they are, and so do those of two `e5m2`: no device
/// multiplies these in 8 bits.
void fuseFloat8(mlir::Block &block);

} // namespace parashard::fusion

#endif
