// Expands f32 math functions for which MLIR's expansion is not accurate enough.
#ifndef PARASHARD_LIB_CODEGEN_EXPANDMATH_H
#define PARASHARD_LIB_CODEGEN_EXPANDMATH_H

#include "mlir/IR/PatternMatch.h"

namespace parashard::codegen {

/// Adds patterns that expand `math.sin`, `math.cos`, `math.atan` and `math.powf` of f32, scalars or
/// vectors. The patterns take precedence over MLIR's, which reduce the argument of a sine in a
/// single f32 step, have relative errors of 4e-6 for atan, and take the logarithm of a negative
/// base.
void populateMathPatterns(mlir::RewritePatternSet &patterns);

} // namespace parashard::codegen

#endif
