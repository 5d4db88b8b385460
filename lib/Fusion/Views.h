// Computes strided views of dense buffers through chains of movement ops and ps.wait, and the
// matmul form of contractions on views.
#ifndef PARASHARD_LIB_FUSION_VIEWS_H
#define PARASHARD_LIB_FUSION_VIEWS_H

#include "dialects/ps/Ps.h"
#include <array>
#include <optional>

namespace parashard::fusion {

/// A strided view: element (i, j, ...) is base[offset + i * strides[0] + j * strides[1] + ...].
struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<int64_t, 4> shape;
  llvm::SmallVector<int64_t, 4> strides;
  bool isDense() const;
};

inline int64_t countElements(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getNumElements();
}

/// Returns true for a view that ps-fuse copies into its own buffer.
using IsMaterialized = llvm::function_ref<bool(mlir::Operation *)>;

/// Returns `value` as a view of its buffer; nullopt if a reshape cannot be expressed with strides.
/// Views for which `stop` returns true have buffers of their own.
std::optional<StridedView> getView(mlir::Value value, IsMaterialized stop = nullptr);

/// A contraction as one batched matmul (docs/program-format.md, "matmul").
struct MatmulForm {
  std::array<int64_t, 2> batch = {1, 1};
  int64_t m = 1, n = 1, k = 1;
  /// Strides by [batch0, batch1, row, column].
  std::array<int64_t, 4> lhs = {}, rhs = {}, out = {};
  bool swapped = false; ///< the op's rhs is the matmul's lhs
};

/// Returns the matmul of a contraction with the given operand views and a dense result; nullopt if
/// the strides do not form a matmul.
std::optional<MatmulForm> getMatmul(ps::ContractOp op, const StridedView &lhs,
                                    const StridedView &rhs);

} // namespace parashard::fusion

#endif
