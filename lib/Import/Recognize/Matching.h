// Provides helpers that the recognizers share.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_MATCHING_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_MATCHING_H

#include "dialects/ps/Ps.h"
#include <optional>

namespace parashard::import::recognize {

inline mlir::RankedTensorType getType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> getShape(mlir::Value value) { return getType(value).getShape(); }

/// Returns the number that every element of a constant has, possibly after broadcasts, reshapes and
/// casts. Returns nullopt for other values.
std::optional<double> getSplat(mlir::Value value);

/// Returns true for the score of a masked key: -inf, or so low that its exponential is 0.
inline bool isMaskedScore(double value) { return value <= -1e30; }

/// Erases an unused op, and then all operands that become unused.
void eraseDead(mlir::Operation *op);

/// An operand of a contraction with its labels, before transposes.
struct LabeledValue {
  mlir::Value value;
  llvm::SmallVector<int64_t> labels;

  void absorbTransposes();
  /// Returns the size of the dim with that label; -1 if there is none.
  int64_t getSize(int64_t label) const;
  /// Transposes the value so that its dims are in `order`; returns null if a label is missing.
  mlir::Value arrange(mlir::OpBuilder &b, mlir::Location loc, llvm::ArrayRef<int64_t> order) const;
};

} // namespace parashard::import::recognize

#endif
