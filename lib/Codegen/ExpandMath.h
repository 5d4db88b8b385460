// Expands f32 math functions for which MLIR's expansion is not accurate enough.
#ifndef PARASHARD_LIB_CODEGEN_EXPANDMATH_H
#define PARASHARD_LIB_CODEGEN_EXPANDMATH_H

#include "mlir/IR/PatternMatch.h"

namespace parashard::codegen {

/// Adds patterns that expand `math.sin`, `math.cos`, `math.atan` and `math.powf` of f32, scalars or
/// vectors. The patterns take precedence over MLIR's, which are less accurate. MLIR reduces the
/// argument of a sine in a single f32 step, has relative errors of 4e-6 for atan, and computes pow
/// with the logarithm of the base even if the base is negative. Unless `hasExp2`, also adds a
/// pattern that computes `math.exp2` in f64.
void populateMathPatterns(mlir::RewritePatternSet &patterns, bool hasExp2);

} // namespace parashard::codegen

#endif
