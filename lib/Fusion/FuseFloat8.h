// Fuses dequantization into matmuls of 8-bit floats.
#ifndef PARASHARD_LIB_FUSION_FUSEFLOAT8_H
#define PARASHARD_LIB_FUSION_FUSEFLOAT8_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Replaces the two dequantized operands of a contraction by the 8-bit tensors and their scales.
/// Scales are powers of two, so the result differs from the unfused matmul only in the order of
/// additions. A contraction is not fused if it has:
/// - an m, n or k that is not a positive multiple of 16,
/// - several batch dims,
/// - two `e5m2` operands, which no device supports,
/// - a bias or a bias gradient.
void fuseFloat8(mlir::Block &block);

} // namespace parashard::fusion

#endif
