// Functions of f32 whose expansion by MLIR is not exact enough.
#ifndef PARASHARD_LIB_CODEGEN_EXPANDMATH_H
#define PARASHARD_LIB_CODEGEN_EXPANDMATH_H

#include "mlir/IR/PatternMatch.h"

namespace parashard::codegen {

/// Adds patterns that expand `math.sin`, `math.cos` and `math.powf` of f32, scalars or vectors.
/// They come before those of MLIR, which reduce the argument of a sine in one step of f32, and
/// take the logarithm of a negative base.
void populateMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace parashard::codegen

#endif
