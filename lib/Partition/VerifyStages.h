// Checks that the stage functions of all pipeline coordinates are consistent.
#ifndef PARASHARD_LIB_PARTITION_VERIFYSTAGES_H
#define PARASHARD_LIB_PARTITION_VERIFYSTAGES_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::partition {

/// Checks the stage functions of each entry (constraints partitioned_c7 to c10, and c13). Each
/// stage (or coordinate) has one function. Every received value is sent. All members of a reduction
/// issue the same op. All functions reach their ends. Ops do not use values of later phases.
mlir::LogicalResult verifyStages(mlir::ModuleOp module);

} // namespace parashard::partition

#endif
