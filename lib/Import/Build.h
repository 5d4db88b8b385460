// Declares the builder of `ps` ops that both importers share.
#ifndef PARASHARD_LIB_IMPORT_BUILD_H
#define PARASHARD_LIB_IMPORT_BUILD_H

#include "dialects/ps/Ps.h"
#include "mlir/Support/DebugStringHelper.h"

namespace parashard::import {

/// Builds the `ps` ops of one node of a graph. If an op cannot be built, the building function
/// calls `fail` with a message, and returns an arbitrary value.
class TensorBuilder {
public:
  TensorBuilder(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  /// Records that the node cannot be imported. In the error, `message` follows the node's name.
  /// Example: "has 3 indices for tensor<4xf32>". Keeps the first message.
  mlir::LogicalResult fail(const llvm::Twine &message);
  bool failed() const { return !reason.empty(); }
  llvm::StringRef getFailure() const { return reason; }

  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(b, loc, std::forward<Args>(args)...);
  }
  mlir::Value splat(mlir::RankedTensorType type, double value);
  /// Builds a floating-point constant from its elements, row-major.
  mlir::Value constant(mlir::RankedTensorType type, llvm::ArrayRef<double> elements);
  mlir::Value convert(mlir::Value value, mlir::Type elementType);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  mlir::Value swapDims(mlir::Value value, int64_t dim0, int64_t dim1);
  mlir::Value slice(mlir::Value value, int64_t dim, int64_t start, int64_t limit,
                    int64_t stride = 1);
  mlir::Value concat(mlir::ValueRange values, int64_t dim);
  /// Broadcasts like PyTorch: dims are aligned at the end, and dims of size 1 are repeated.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value reduce(ps::ReductionKind kind, mlir::Value value, llvm::ArrayRef<int64_t> dims,
                     bool keepDims);
  mlir::Value compare(ps::Predicate predicate, mlir::Value lhs, mlir::Value rhs);
  /// Converts 16-bit floats to f32, for ops that PyTorch computes in f32.
  mlir::Value widen(mlir::Value value);
  mlir::Value divide(mlir::Value value, double divisor);
  /// Builds a `ps.contract`. Transposes of operands become part of the labels.
  mlir::Value contract(mlir::Value lhs, llvm::ArrayRef<int64_t> lhsLabels, mlir::Value rhs,
                       llvm::ArrayRef<int64_t> rhsLabels, llvm::ArrayRef<int64_t> resultLabels);
  /// Returns the element at index `position` along `dim`. `position` and the result have size 1
  /// along `dim`. Returns 0 if the index is out of range. Only the selected element gets a
  /// gradient.
  mlir::Value takePosition(mlir::Value value, mlir::Value position, int64_t dim);
  /// Returns the shape that PyTorch broadcasts both values to.
  llvm::SmallVector<int64_t> commonShape(mlir::Value lhs, mlir::Value rhs);
  mlir::RankedTensorType typeLike(mlir::Value value, mlir::Type elementType);

  mlir::Type f32() { return b.getF32Type(); }
  mlir::Type i1() { return b.getI1Type(); }
  mlir::Type i64() { return b.getI64Type(); }

  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  std::string reason;
};

inline mlir::RankedTensorType getType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> getShape(mlir::Value value) { return getType(value).getShape(); }
inline int64_t getRank(mlir::Value value) { return getType(value).getRank(); }
inline mlir::Type getElement(mlir::Value value) { return getType(value).getElementType(); }
inline bool isFloat(mlir::Value value) { return llvm::isa<mlir::FloatType>(getElement(value)); }
/// Returns the product of the sizes of `dims`.
int64_t countElements(mlir::Value value, llvm::ArrayRef<int64_t> dims);
/// Converts a negative dim, which counts from the end, to a nonnegative one. Example: -1 becomes 3
/// for a tensor of rank 4.
inline int64_t wrapDim(int64_t dim, int64_t rank) { return dim < 0 ? dim + rank : dim; }
llvm::SmallVector<int64_t> wrapDims(llvm::ArrayRef<int64_t> dims, int64_t rank);

} // namespace parashard::import

#endif
