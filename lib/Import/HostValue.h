// Values that depend on no input and no variable, computed at import: for ops that `ps` has only as
// constants.
#ifndef PARASHARD_LIB_IMPORT_HOSTVALUE_H
#define PARASHARD_LIB_IMPORT_HOSTVALUE_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Build.h"
#include <optional>

namespace parashard::import {

/// The value of a tensor that constants alone define; nothing when it depends on more, or any
/// tensor on the way to it has more than `kMaxHostElements` elements.
inline constexpr int64_t kMaxHostElements = 1 << 20;
std::optional<ps::Tensor> evaluateOnHost(mlir::Value value);

/// Returns true when a gradient flows from a value to a parameter that is trained.
bool dependsOnTrained(mlir::Value value);

/// Returns `value` behind a `ps.stop_gradient`, or `value` itself where no gradient would flow.
mlir::Value stopGradient(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value);

/// A constant in its smallest form: a splat, `start + step * iota` along one dim, or all elements;
/// dims along which nothing changes are a broadcast.
mlir::Value buildHostConstant(TensorBuilder &n, const ps::Tensor &tensor);

} // namespace parashard::import

#endif
