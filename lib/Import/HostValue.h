// Computes values that depend on no input and no variable. Some `ps` ops accept only constants for
// an operand.
#ifndef PARASHARD_LIB_IMPORT_HOSTVALUE_H
#define PARASHARD_LIB_IMPORT_HOSTVALUE_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Build.h"
#include <optional>

namespace parashard::import {

/// Returns the value of a tensor that depends only on constants. Returns nullopt if the tensor
/// depends on more, or if a visited tensor has more than `kMaxHostElements` elements.
inline constexpr int64_t kMaxHostElements = 1 << 20;
std::optional<ps::Tensor> evaluateOnHost(mlir::Value value);

/// Returns true if a gradient flows from a value to a trained parameter.
bool dependsOnTrained(mlir::Value value);

/// Returns `value` passed through a `ps.stop_gradient`, or `value` itself if no gradient would
/// flow.
mlir::Value stopGradient(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

/// Builds a constant in its smallest form: a splat, `start + step * iota` along one dim, or all
/// elements. Dims along which nothing changes become a broadcast.
mlir::Value buildHostConstant(TensorBuilder &n, const ps::Tensor &tensor);

} // namespace parashard::import

#endif
