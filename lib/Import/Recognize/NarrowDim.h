// Reduces a dim along which a value does not change to one element.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H

#include "dialects/ps/Ps.h"

namespace parashard::recognize {

/// Returns `value`, which must be the same along `dim`, with size 1 in that dim. Elementwise ops
/// are recomputed for one element, up to the broadcast that repeated it; other values are sliced.
/// The new ops are right after `value`.
mlir::Value narrowDim(mlir::Value value, int64_t dim);

} // namespace parashard::recognize

#endif
