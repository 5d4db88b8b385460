// Declares functions that compute only one row of a value whose rows are all equal, so that import
// time does not grow with the batch size.
#ifndef PARASHARD_LIB_IMPORT_FIRSTROW_H
#define PARASHARD_LIB_IMPORT_FIRSTROW_H

#include "lib/Import/Build.h"

namespace parashard::import {

/// Builds row 0 of `value` (size 1 along dim 0) if all rows are equal by construction: `value` is
/// computed from broadcasts and constants by ops that treat rows independently. Returns null for
/// other values.
mlir::Value buildFirstRow(TensorBuilder &n, mlir::Value value);

/// Broadcasts `row` (size 1 along dim 0) to `shape`. A splat stays a splat.
mlir::Value repeatRow(TensorBuilder &n, mlir::Value row, llvm::ArrayRef<int64_t> shape);

} // namespace parashard::import

#endif
