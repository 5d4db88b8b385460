// Declares queries of scaled 8-bit floats.
#ifndef PARASHARD_DIALECTS_PS_FLOAT8_H
#define PARASHARD_DIALECTS_PS_FLOAT8_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// An 8-bit tensor and its scale (`tensor<f32>`), which multiplies every element.
struct Quantized {
  mlir::Value bits, scale;
};

/// Returns the operands of the `ps.dequantize` that computes `value`, if one scale applies to the
/// whole tensor. Returns nullopt for other values.
std::optional<Quantized> findQuantized(mlir::Value value);

} // namespace parashard::ps

#endif
