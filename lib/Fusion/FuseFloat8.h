// Fuses dequantization into matmuls of 8-bit floats.
#ifndef PARASHARD_LIB_FUSION_FUSEFLOAT8_H
#define PARASHARD_LIB_FUSION_FUSEFLOAT8_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Gives contractions with two dequantized operands the 8-bit numbers and their scales. Scales are
/// powers of two, so sums differ only in the order of their additions. Contractions with dims that
/// are not multiples of 16 stay as they are. So do contractions of two `e5m2` operands, which no
/// device multiplies in 8 bits.
void fuseFloat8(mlir::Block &block);

} // namespace parashard::fusion

#endif
