// Reduces a dim along which a value does not change to one element.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H

#include "dialects/ps/Ps.h"

namespace parashard::import::recognize {

/// Returns `value` reduced to size 1 along `dim`; `value` must not change along `dim`. Rebuilds
/// elementwise ops on one element, back to the broadcast that repeated this element. Slices other
/// values. Inserts the new ops right after `value`.
mlir::Value narrowDim(mlir::Value value, int64_t dim);

} // namespace parashard::import::recognize

#endif
