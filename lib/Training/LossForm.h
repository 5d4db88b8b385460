// Declares how a loss is split into means over counted elements, a sum over the batch, and an
// average. See docs/levels/loss.md.
#ifndef PARASHARD_LIB_TRAINING_LOSSFORM_H
#define PARASHARD_LIB_TRAINING_LOSSFORM_H

#include "mlir/IR/Builders.h"

namespace parashard::training {

/// One part of a loss; the loss is the sum of its parts.
struct LossPart {
  enum class Kind {
    Mean,   ///< value / count, each summed over the batches of a step
    Sum,    ///< value, summed over the batches of a step
    Average ///< value, averaged over the batches of a step
  };
  Kind kind;
  mlir::Value value;
  mlir::Value count; ///< divisor of a mean; does not depend on variables that change in training
  /// The sums that `count` is a function of. Example: `mask.sum()` for `mask.sum().clamp(min=1)`.
  /// Contains only `count` if it is a sum, or if no sums were found.
  llvm::SmallVector<mlir::Value, 1> counted;

  bool isCountedDirectly() const { return counted.size() == 1 && counted.front() == count; }
};

/// Recomputes the count of a mean from other values of its sums: clones the ops between
/// `mean.counted` and `mean.count`, with `counted` in place of `mean.counted`.
mlir::Value recount(mlir::OpBuilder &builder, const LossPart &mean, mlir::ValueRange counted);

/// A count of the form `max(sum + plus, least)`. For several batches, `sum` is summed; `plus` and
/// `least` are constants. Example: `mask.sum().clamp(min=1)` has sum = `mask.sum()` and least = 1.
struct CountForm {
  mlir::Value sum;
  mlir::Value plus, least; ///< null if the form has no such constant
};
/// Matches the count of a mean with a `CountForm`. Returns nullopt if the count has another form.
/// May create ops at the builder's insertion point.
std::optional<CountForm> findCountForm(mlir::OpBuilder &builder, const LossPart &mean);

/// Splits a loss into parts. Looks through additions, conversions, and factors that do not depend
/// on the batch. Means come first, then the sum, then the average:
///
/// - A mean is a sum divided by a count that depends on the batch, such as a masked cross-entropy.
///   There is one part per count. If the whole loss is a sum divided by a constant, the loss is
///   also a mean.
/// - The sum contains the terms that are sums over samples and are not divided by the number of
///   samples.
/// - The average contains all other terms.
///
/// A sum that is divided by a multiple of the number of samples, or multiplied by 1 / (number of
/// summed elements), counts as a mean over samples, and belongs to the average. If such a constant
/// may have another meaning, `ambiguous` (if given) is set to its location. Creates ops at the
/// builder's insertion point, which must be after the loss.
llvm::SmallVector<LossPart> splitLoss(mlir::OpBuilder &builder, mlir::Value loss,
                                      std::optional<mlir::Location> *ambiguous = nullptr);

/// Returns true if the loss of a whole step may differ from the average of the losses of its
/// micro-batches. Any of these cases is sufficient, but the second case is not detected with one
/// sample per batch:
///
/// - An average divides by a count that depends on the batch, such as the number of labels that are
///   not ignored.
/// - A part, or its count, is not a linear function of sums over samples. Examples: a root, a norm,
///   a contrastive loss.
/// - A sum that is divided by a count has a constant summand, which each batch adds once.
bool isUneven(llvm::ArrayRef<LossPart> parts);

/// Returns true if each value and count of the parts is a linear function of sums over several
/// samples, or depends on no sample. The runtime can then compute the values of a partial batch
/// from the values of batches that it fills by repeating samples.
bool areRowSums(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);

/// Returns true if a partial batch can be padded with samples whose labels are ignored. Each part
/// must be a sum over samples to which such samples add 0, optionally divided by another such sum.
/// No value that depends on the batch may be written to a variable.
bool ignoresRows(llvm::ArrayRef<LossPart> parts);

} // namespace parashard::training

#endif
