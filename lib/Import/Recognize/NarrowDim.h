// One place of a dim along which a value does not change.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_NARROWDIM_H

#include "dialects/ps/Ps.h"

namespace parashard::recognize {

/// `value`, which is the same at all places of `dim`, with that dim of size 1, right after it. What
/// it is computed from by elements is computed anew for one place, down to the broadcast that
/// repeated it; anything else is sliced.
mlir::Value narrowDim(mlir::Value value, int64_t dim);

} // namespace parashard::recognize

#endif
