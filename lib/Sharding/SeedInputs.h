// Splits the inputs of a model along their batch.
#ifndef PARASHARD_LIB_SHARDING_SEEDINPUTS_H
#define PARASHARD_LIB_SHARDING_SEEDINPUTS_H

#include "lib/Sharding/Split.h"

namespace parashard::sharding {

/// Splits the inputs without a sharding along their batch dim (`ps.batch_dim`, or dim 0) over all
/// data and expert axes. Fails with an error at the function if a batch dim is missing or not
/// divisible.
llvm::LogicalResult seedInputs(mlir::ModuleOp module, const MeshShape &mesh);

} // namespace parashard::sharding

#endif
