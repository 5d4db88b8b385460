// Whether the stage functions of all pipeline coordinates fit together.
#ifndef PARASHARD_LIB_PARTITION_VERIFYSTAGES_H
#define PARASHARD_LIB_PARTITION_VERIFYSTAGES_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::ps {

/// Checks the stage functions of each entry (constraints partitioned_c7 to c10): there is one per
/// stage or coordinate, what one takes of another is given there, members of a reduction issue it
/// alike, and all functions reach their ends.
mlir::LogicalResult verifyStages(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
