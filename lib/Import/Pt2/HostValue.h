// Values that depend on no input and no variable, computed at import: for ops that `ps` has only as
// constants.
#ifndef PARASHARD_LIB_IMPORT_PT2_HOSTVALUE_H
#define PARASHARD_LIB_IMPORT_PT2_HOSTVALUE_H

#include "dialects/ps/Ps.h"
#include "lib/Import/Pt2/Convert.h"
#include <optional>

namespace parashard::import {

/// The value of a tensor that constants alone define; nothing when it depends on more, or any
/// tensor on the way to it has more than `kMaxHostElements` elements.
inline constexpr int64_t kMaxHostElements = 1 << 20;
std::optional<ps::Tensor> evaluateOnHost(mlir::Value value);

/// Whether a value is computed from a parameter that is trained.
bool dependsOnTrained(mlir::Value value);

/// A constant in its smallest form: a splat, `start + step * iota` along one dim, or all elements;
/// dims along which nothing changes are a broadcast.
mlir::Value buildHostConstant(NodeConverter &n, const ps::Tensor &tensor);

/// `x` at the places of a constant index along one dim (ConvertRearrange.cpp).
mlir::LogicalResult convertConstantSelect(NodeConverter &n, mlir::Value x, const ps::Tensor &index,
                                          int64_t dim);

} // namespace parashard::import

#endif
