// Declares helpers that the recognition passes share.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_MATCHING_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_MATCHING_H

#include "dialects/ps/Ps.h"
#include <optional>

namespace parashard::import::recognize {

inline mlir::RankedTensorType getType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> getShape(mlir::Value value) { return getType(value).getShape(); }

/// If `value` is a splat constant, returns the number that all its elements equal. Looks through
/// broadcast, reshape, transpose, slice and casts to float. Returns nullopt for other values.
std::optional<double> getSplat(mlir::Value value);

/// Returns true for a score that hides a key: -inf, or a number so low that its exponential is 0.
inline bool isMaskedScore(double value) { return value <= -1e30; }

/// Erases `op` if its results are unused, then the ops of its operands that become unused.
void eraseDead(mlir::Operation *op);

/// An operand of a contraction, with a label for each dim.
struct LabeledValue {
  mlir::Value value;
  llvm::SmallVector<int64_t> labels;

  /// Replaces a transpose by its operand, and permutes the labels.
  void absorbTransposes();
  /// Returns the size of the dim with this label, or -1 if no dim has this label.
  int64_t getSize(int64_t label) const;
  /// Transposes the value so that its labels are in `order`. Returns null if a label is missing.
  mlir::Value arrange(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> order) const;
};

} // namespace parashard::import::recognize

#endif
