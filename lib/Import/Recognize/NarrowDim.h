// Declares narrowDim, which reduces a dim to size 1. The value must be equal at all indices of the
// dim.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H

#include "dialects/ps/Ps.h"

namespace parashard::import::recognize {

/// Returns `value` with size 1 along `dim`. All indices of `dim` must have equal elements. Rebuilds
/// elementwise ops and broadcasts with size 1 along `dim`, and slices other values. Inserts the new
/// ops after `value`.
mlir::Value narrowDim(mlir::Value value, int64_t dim);

} // namespace parashard::import::recognize

#endif
