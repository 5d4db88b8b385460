// Computes values that are the same along a batch once, so that import time does not grow with the
// batch size.
#ifndef PARASHARD_LIB_IMPORT_FIRSTROW_H
#define PARASHARD_LIB_IMPORT_FIRSTROW_H

#include "lib/Import/Build.h"

namespace parashard::import {

/// Builds a value with size 1 along dim 0 that `value` repeats along dim 0. `value` must be
/// computed from broadcasts and constants, elementwise or along other dims. Returns null for other
/// values.
mlir::Value buildFirstRow(TensorBuilder &n, mlir::Value value);

/// Repeats `row`, of size 1 along dim 0, to `shape`. A splat stays a splat.
mlir::Value repeatRow(TensorBuilder &n, mlir::Value row, llvm::ArrayRef<int64_t> shape);

} // namespace parashard::import

#endif
