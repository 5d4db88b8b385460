// Tensors without elements, and what follows from them, become constants.
#ifndef PARASHARD_LIB_FUSION_FOLDEMPTY_H
#define PARASHARD_LIB_FUSION_FOLDEMPTY_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Whether the value is a tensor with no elements.
bool isEmpty(mlir::Value value);

/// Replaces results that have no elements by constants, and results of ops that read nothing but
/// such tensors by their values. Example: the maximum over dim 1 of a tensor<2x0x4xf32> becomes
/// `ps.constant dense<-inf> : tensor<2x4xf32>`. What remains divides by no size of 0.
mlir::LogicalResult foldEmpty(mlir::Block &block);

} // namespace parashard::fusion

#endif
