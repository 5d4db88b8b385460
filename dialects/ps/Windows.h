// Declares the sliding windows over space dims that convolutions and pooling share.
#ifndef PARASHARD_DIALECTS_PS_WINDOWS_H
#define PARASHARD_DIALECTS_PS_WINDOWS_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// The geometry of windows. The elements of a window are called taps. Along space dim d, tap k (0
/// <= k < kernel[d]) of window w reads element w * strides[d] + k * dilation[d] - low[d]. A tap
/// outside of [0, in[d]) reads padding. Example: with stride 2, low 1 and dilation 1, the 3 taps of
/// window 1 read elements 1, 2 and 3.
struct Windows {
  llvm::ArrayRef<int64_t> in, out, kernel; ///< sizes of the space dims
  llvm::ArrayRef<int64_t> strides, low, dilation;

  unsigned getRank() const { return in.size(); }
  /// Return the number of taps of one window, the number of windows, and the number of input
  /// elements. Each number is for all space dims together.
  int64_t getTaps() const { return llvm::product_of(kernel); }
  int64_t countPositions() const { return llvm::product_of(out); }
  int64_t getElements() const { return llvm::product_of(in); }
  /// Returns the element that a tap reads, or -1 if the tap is outside of the input. The element is
  /// a row-major index over `in`, the window `position` over `out`, and `tap` over `kernel`.
  int64_t getElement(int64_t position, int64_t tap) const;
};

/// Returns the space dims of a tensor [N, C, space...]. Returns an empty list for fewer dims.
inline llvm::ArrayRef<int64_t> getSpace(mlir::Type type) {
  auto shape = llvm::cast<mlir::RankedTensorType>(type).getShape();
  return shape.drop_front(std::min<size_t>(2, shape.size()));
}

/// Verifies the constraint `label`: all tensors have the same number of dims (at least 3), only the
/// first dim may be empty, each list of `windows` has one entry per space dim, and all space dims
/// and list entries are in range.
mlir::LogicalResult verifyWindows(mlir::Operation *op, const Windows &windows,
                                  mlir::TypeRange tensors, llvm::StringRef label);

/// Adds one factor per space dim, which must not be sharded. Otherwise, neighboring shards would
/// have to exchange the elements that their windows share.
void addSpace(ShardingRule &rule, TensorFactors &tensor, llvm::ArrayRef<int64_t> sizes);

/// Adds the instruction fields that describe windows of size `window` over x with the results y.
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
