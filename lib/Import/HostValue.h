// Declares the evaluation of constant expressions during import. Some `ps` ops need constant
// operands.
#ifndef PARASHARD_LIB_IMPORT_HOSTVALUE_H
#define PARASHARD_LIB_IMPORT_HOSTVALUE_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Build.h"
#include <optional>

namespace parashard::import {

/// Maximum number of elements of a tensor that `evaluateOnHost` computes.
inline constexpr int64_t kMaxHostElements = 1 << 20;
/// Returns the elements of a value that only depends on constants. Returns nullopt for other
/// values, or if the evaluation is too expensive. Example: a tensor with more than
/// `kMaxHostElements` elements.
std::optional<ps::Tensor> evaluateOnHost(mlir::Value value);

/// Returns true if `value` has a gradient with respect to a trained parameter.
bool dependsOnTrained(mlir::Value value);

/// Returns `ps.stop_gradient` of `value`, or `value` itself if `value` has no gradient.
mlir::Value stopGradient(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

/// Builds a constant in its smallest form: a splat, `start + step * iota` along one dim, or all
/// elements. Dims along which the tensor does not change become a broadcast.
mlir::Value buildHostConstant(TensorBuilder &n, const ps::Tensor &tensor);

} // namespace parashard::import

#endif
