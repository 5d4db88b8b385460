// Windows that slide over space dims: what convolutions and pooling have in common.
#ifndef PARASHARD_DIALECTS_PS_WINDOWS_H
#define PARASHARD_DIALECTS_PS_WINDOWS_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// Window `place` along space dim d covers, for each tap k of its `kernel[d]`, the element
/// place x strides[d] + k x dilation[d] - low[d] of the `in[d]` that there are.
struct Windows {
  llvm::ArrayRef<int64_t> in, out, kernel; ///< sizes of the space dims
  llvm::ArrayRef<int64_t> strides, low, dilation;

  unsigned getRank() const { return in.size(); }
  /// Taps of one window, and windows.
  int64_t getTaps() const { return llvm::product_of(kernel); }
  int64_t countPositions() const { return llvm::product_of(out); }
  int64_t getElements() const { return llvm::product_of(in); }
  /// The element (row-major over `in`) under tap number `tap` of window number `place` (both
  /// row-major); -1 outside.
  int64_t getElement(int64_t place, int64_t tap) const;
};

/// Space dims of a tensor [N, C, space...]; none of one with fewer dims.
inline llvm::ArrayRef<int64_t> getSpace(mlir::Type type) {
  auto shape = llvm::cast<mlir::RankedTensorType>(type).getShape();
  return shape.drop_front(std::min<size_t>(2, shape.size()));
}

/// The constraint `label` on ranks, lists and sizes: `windows`' lists have one entry a space dim.
mlir::LogicalResult verifyWindows(mlir::Operation *op, const Windows &windows,
                                  mlir::TypeRange tensors, llvm::StringRef label);

/// One factor a space dim that may not be split: neighbouring shards would have to exchange what
/// their windows share.
void addSpace(ShardingRule &rule, TensorFactors &tensor, llvm::ArrayRef<int64_t> sizes);

/// Adds the fields of windows of the size `window` over x with the results y.
template <typename Op>
void addWindows(CallBuilder &call, Op op, mlir::Value x, mlir::Value y,
                llvm::ArrayRef<int64_t> window) {
  call.add("in", llvm::json::Array(getSpace(x.getType())));
  call.add("out_size", llvm::json::Array(getSpace(y.getType())));
  call.add("window", llvm::json::Array(window));
  call.add("strides", llvm::json::Array(op.getStrides()));
  call.add("low", llvm::json::Array(op.getLow()));
  call.add("dilation", llvm::json::Array(op.getDilation()));
}

} // namespace parashard::ps

#endif
