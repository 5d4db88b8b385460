// Builds the collectives and local ops of a resharding.
#ifndef PARASHARD_LIB_PARTITION_BUILDRESHARD_H
#define PARASHARD_LIB_PARTITION_BUILDRESHARD_H

#include "lib/Sharding/Reshard.h"

namespace parashard::partition {

/// Builds the steps. The result has the local type of the target sharding.
mlir::Value buildReshard(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                         llvm::ArrayRef<sharding::ReshardStep> steps);

} // namespace parashard::partition

#endif
