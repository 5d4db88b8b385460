// Builds the collectives and local ops of a resharding.
#ifndef PARASHARD_LIB_PARTITION_BUILDRESHARD_H
#define PARASHARD_LIB_PARTITION_BUILDRESHARD_H

#include "lib/Sharding/Reshard.h"

namespace parashard::partition {

/// Builds the ops of `steps` (from `planReshard`), starting from the local tensor `value`. Returns
/// the resharded local tensor.
mlir::Value buildReshard(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                         llvm::ArrayRef<sharding::ReshardStep> steps);

} // namespace parashard::partition

#endif
