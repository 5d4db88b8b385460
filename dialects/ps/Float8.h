// What passes ask of scaled 8-bit floats.
#ifndef PARASHARD_DIALECTS_PS_FLOAT8_H
#define PARASHARD_DIALECTS_PS_FLOAT8_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// A tensor in 8 bits, and the one number (`tensor<f32>`) that each of it is multiplied by.
struct Quantized {
  mlir::Value bits, unit;
};

/// What `value` is dequantized of, where its unit is one for all; nothing elsewhere.
std::optional<Quantized> findQuantized(mlir::Value value);

} // namespace parashard::ps

#endif
