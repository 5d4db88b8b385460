// Replaces tensors without elements, and values that depend only on them, by constants.
#ifndef PARASHARD_LIB_FUSION_FOLDEMPTY_H
#define PARASHARD_LIB_FUSION_FOLDEMPTY_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Returns true if the value is a tensor without elements.
bool isEmpty(mlir::Value value);

/// Replaces results without elements by constants. Also replaces the results of ops that only read
/// such tensors, so that no remaining op divides by a size of 0. Example: the maximum over dim 1 of
/// a tensor<2x0x4xf32> becomes `ps.constant dense<-inf> : tensor<2x4xf32>`. Fails for an attention
/// with heads of size 0 and a mask or dropout.
mlir::LogicalResult foldEmpty(mlir::Block &block);

} // namespace parashard::fusion

#endif
