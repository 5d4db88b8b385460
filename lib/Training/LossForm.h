// Splits a loss into means over counted elements, sums over the batch, and other terms.
#ifndef PARASHARD_LIB_TRAINING_LOSSFORM_H
#define PARASHARD_LIB_TRAINING_LOSSFORM_H

#include "mlir/IR/Builders.h"

namespace parashard::training {

/// One part of a loss; the loss is the sum of its parts.
struct LossPart {
  enum class Kind {
    Mean,   ///< value / count, both added up over the batches of a step
    Sum,    ///< value, added up over the batches of a step
    Average ///< value, averaged over the batches of a step
  };
  Kind kind;
  mlir::Value value;
  mlir::Value count; ///< divisor of a mean; depends on no variable that training changes
  /// The sums that `count` is a function of. Example: the number of labels, for a count clamped to
  /// at least 1. Holds `count` itself if it is a sum, or if no sums were found.
  llvm::SmallVector<mlir::Value, 1> counted;

  bool isCountedDirectly() const { return counted.size() == 1 && counted.front() == count; }
};

/// Recomputes the count of a mean for the values `counted` of its sums: clones the ops between the
/// sums (`mean.counted`) and the count. Returns the new count.
mlir::Value recount(mlir::OpBuilder &builder, const LossPart &mean, mlir::ValueRange counted);

/// A count of the form `max(sum + plus, least)`. `sum` adds up over batches; the other values stay
/// the same for any number of batches. Example: `mask.sum().clamp(min=1)` has `sum` = the sum of
/// the mask and `least` = 1.
struct CountForm {
  mlir::Value sum;
  mlir::Value plus, least; ///< null: none
};
/// Returns the form of the count of a mean, or nullopt if it is another function of its counted
/// sums. Creates the ops that the form needs at the builder's insertion point.
std::optional<CountForm> findCountForm(mlir::OpBuilder &builder, const LossPart &mean);

/// Splits a loss into parts. Looks through additions, conversions, and multiplications by factors
/// that depend on no input. Means come first, then the sum, then the average:
///
/// - A mean is a sum divided by a count that is computed from the batch, such as a masked cross
///   entropy. There is one part per count. A whole loss that is a sum over a static number of
///   elements divided by that number is a mean as well.
/// - The sum holds the terms that are sums over the samples of the batch, and are not divided by
///   the number of samples.
/// - The average holds all other terms.
///
/// A sum that is divided by a multiple of the number of samples, or multiplied by 1 / its number of
/// elements, is taken for a mean (and so for an average). `ambiguous`, if given, is set to the
/// location of a constant that may mean something else. Creates the ops of the parts at the
/// builder's insertion point, which must be after the loss.
llvm::SmallVector<LossPart> splitLoss(mlir::OpBuilder &builder, mlir::Value loss,
                                      std::optional<mlir::Location> *ambiguous = nullptr);

/// Returns true if the loss of a whole step may differ from the average of its micro-batches'
/// losses. Each of the following is sufficient. With one sample per batch, only the first is
/// recognized:
///
/// - An average divides by a count computed from the batch (labels that are not ignored).
/// - A part, or its count, is not a multiple of a sum over samples (a root, a norm, a contrast
///   among samples).
/// - A sum that is divided by a count has a constant added, which each batch adds once.
bool isUneven(llvm::ArrayRef<LossPart> parts);

/// Returns true if the values and counts of the parts are multiples of sums over several samples,
/// or depend on no sample. The values of a partial batch then follow from whole batches.
bool areRowSums(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);

/// Returns true if a partial batch can be padded with rows whose labels are ignored. Each part must
/// be a sum over samples to which such rows add 0, optionally divided by another such sum. No
/// variable may be written from the batch.
bool ignoresRows(llvm::ArrayRef<LossPart> parts);

} // namespace parashard::training

#endif
