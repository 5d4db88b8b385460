// One row of values that are the same along a batch, so that what is computed at import does not
// grow with it.
#ifndef PARASHARD_LIB_IMPORT_FIRSTROW_H
#define PARASHARD_LIB_IMPORT_FIRSTROW_H

#include "lib/Import/Build.h"

namespace parashard::import {

/// A value with size 1 along dim 0 that `value` repeats along it, built from broadcasts, constants
/// and what is computed from these elementwise or along other dims; null when it is none of these.
mlir::Value buildFirstRow(TensorBuilder &n, mlir::Value value);

/// `row`, of size 1 along dim 0, repeated to `shape`; a splat stays one.
mlir::Value repeatRow(TensorBuilder &n, mlir::Value row, llvm::ArrayRef<int64_t> shape);

} // namespace parashard::import

#endif
