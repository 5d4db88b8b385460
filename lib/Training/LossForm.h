// What a loss is made of: means of what counts, sums over the batch, and further terms.
#ifndef PARASHARD_LIB_TRAINING_LOSSFORM_H
#define PARASHARD_LIB_TRAINING_LOSSFORM_H

#include "mlir/IR/Builders.h"

namespace parashard {

/// One part of a loss, which is the sum of its parts.
struct LossPart {
  enum class Kind {
    Mean,   ///< value / count, both added up over the batches of a step
    Sum,    ///< value, added up over the batches of a step
    Average ///< value, averaged over the batches of a step
  };
  Kind kind;
  mlir::Value value;
  mlir::Value count; ///< of a mean: depends on no variable that training changes
  /// What is counted: the sums that `count` is a function of, such as the number of labels of a
  /// count that is at least 1. `count` itself where it is one, or where nothing is found.
  llvm::SmallVector<mlir::Value, 1> counted;

  bool isCountedDirectly() const { return counted.size() == 1 && counted.front() == count; }
};

/// The count of a mean when `counted` has other values: the ops between them, copied.
mlir::Value recount(mlir::OpBuilder &builder, const LossPart &mean, mlir::ValueRange counted);

/// A count that is `max(sum + plus, least)`: what it adds up over batches, and what stays the same
/// for any number of them. Example: `mask.sum().clamp(min=1)` has the sum of the mask and 1.
struct CountForm {
  mlir::Value sum;
  mlir::Value plus, least; ///< null: none
};
/// Returns the form of the count of a mean; nullopt where it is another function of what is
/// counted. Makes ops that it needs at the builder's insertion point.
std::optional<CountForm> findCountForm(mlir::OpBuilder &builder, const LossPart &mean);

/// Splits a loss through additions, factors that no input changes, and conversions. A mean is a sum
/// divided by a count that is computed from the batch (a masked mean: cross-entropy), one part for
/// each count. A sum is one over the samples of the batch that nothing makes a mean. All else is
/// one average, unless the whole loss is a sum over a static number of elements divided by that:
/// then it is a mean too. Makes the ops that the parts need at the builder's insertion point,
/// behind the loss's. Means come first, then the sum, then the average. A sum that is divided by a
/// multiple of the number of samples, or multiplied by 1 / its number of elements, is taken for a
/// mean; `ambiguous`, if given, becomes where the constant may be another one.
llvm::SmallVector<LossPart> splitLoss(mlir::OpBuilder &builder, mlir::Value loss,
                                      std::optional<mlir::Location> *ambiguous = nullptr);

/// Whether a loss of these parts may differ between several batches and all together: its average
/// divides by what the batch counts (labels that are not ignored), or a part or what it is divided
/// by depends on the batch otherwise than as a multiple of a sum over its samples (a root of one, a
/// norm, a contrast among samples), or a sum that is divided by what the batch counts has something
/// added that each batch has once. Of batches of one sample only the first is known.
bool isUneven(llvm::ArrayRef<LossPart> parts);

/// Whether the values and counts of these parts are multiples of sums over the samples of a batch
/// of several, or know no sample: then those of fewer samples follow from whole batches.
bool areRowSums(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);

/// Whether a batch of fewer samples, filled up with rows whose labels are ignored, has the loss of
/// its samples and writes what they do: each part is a sum over samples to which such rows add
/// nothing, divided by one or by nothing, and no variable is written from the batch.
bool ignoresRows(llvm::ArrayRef<LossPart> parts);

} // namespace parashard

#endif
