// Strided views: what a chain of movement ops reads of a dense buffer; contractions as matmuls on
// them.
#ifndef PARASHARD_LIB_FUSION_VIEWS_H
#define PARASHARD_LIB_FUSION_VIEWS_H

#include "dialects/ps/Ps.h"
#include <array>
#include <optional>

namespace parashard::fusion {

/// Elements `offset` + sum of index x stride of the dense tensor `base`.
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

/// On a top-level view op: its result is kept in a buffer of its own (ps-fuse makes it a copy).
using IsMaterialised = llvm::function_ref<bool(mlir::Operation *)>;

/// `value` as a view of the buffer that it lies in. Where a reshape cannot be strided, nullopt.
std::optional<StridedView> getView(mlir::Value value, IsMaterialised stop = nullptr);

/// A contraction as one batched matmul (docs/program-format.md, "matmul").
struct MatmulForm {
  std::array<int64_t, 2> batch = {1, 1};
  int64_t m = 1, n = 1, k = 1;
  /// Strides by [batch0, batch1, row, column].
  std::array<int64_t, 4> lhs = {}, rhs = {}, out = {};
  bool swapped = false; ///< the op's rhs is the matmul's lhs
};

/// The matmul of a contraction whose operands lie as given and whose result is dense; nullopt where
/// strides do not fit one.
std::optional<MatmulForm> getMatmul(ps::ContractOp op, const StridedView &lhs,
                                    const StridedView &rhs);

} // namespace parashard::fusion

#endif
