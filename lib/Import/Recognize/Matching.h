// Small questions about values that the recognisers ask.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_MATCHING_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_MATCHING_H

#include "dialects/ps/Ps.h"
#include <optional>

namespace parashard::recognize {

inline mlir::RankedTensorType getType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> getShape(mlir::Value value) { return getType(value).getShape(); }

/// The number that every element of a constant is, also behind broadcasts, reshapes and casts;
/// nothing for others.
std::optional<double> getSplat(mlir::Value value);

/// A value that attention may not see: -inf, or so low that its exponential is 0.
inline bool isMaskedScore(double value) { return value <= -1e30; }

/// Erases an op that nothing reads, and then what only it read.
void eraseDead(mlir::Operation *op);

/// A contraction's operand with transposes read through, by labels.
struct LabeledValue {
  mlir::Value value;
  llvm::SmallVector<int64_t> labels;

  void absorbTransposes();
  /// The size of the dim with that label; -1 when it has none.
  int64_t getSize(int64_t label) const;
  /// The value transposed so that its dims have `order`; null when it lacks one.
  mlir::Value arrange(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> order) const;
};

} // namespace parashard::recognize

#endif
