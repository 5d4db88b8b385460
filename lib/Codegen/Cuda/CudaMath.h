// Expands exp and reciprocals of f32 for a GPU.
#ifndef PARASHARD_LIB_CODEGEN_CUDA_CUDAMATH_H
#define PARASHARD_LIB_CODEGEN_CUDA_CUDAMATH_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::codegen {

/// Expands exp to exp2, which is one instruction of a GPU, and marks reciprocals as approximate, so
/// that they are one instruction too. Both are accurate to 3 f32 ulps. In a replay, exp2 is a call
/// of libm, and reciprocals are exact.
void expandCudaMath(mlir::ModuleOp kernels);

} // namespace parashard::codegen

#endif
