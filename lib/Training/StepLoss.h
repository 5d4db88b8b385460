// Declares how the loss of a step is computed from its micro-batches.
#ifndef PARASHARD_LIB_TRAINING_STEPLOSS_H
#define PARASHARD_LIB_TRAINING_STEPLOSS_H

#include "LossForm.h"
#include "lib/IR/Symbols.h"

namespace parashard::training {

/// Builds the ops and variables of the loss in all entries of a program. After all
/// micro-batches, `@loss.sum` is count * loss of the step, and the accumulated gradients are those
/// of count * loss. `@update` divides both by `@loss.count`. Here, count is that of the first mean,
/// over the whole step. Without a mean, count is 1, or the number of micro-batches if the whole
/// loss is an average.
///
/// With several parts, `@count` first runs for all micro-batches. Then, `@micro_batch` multiplies
/// each part after the first by a factor:
///
/// - mean: count / (the count of this part), or 0 if the count of this part is 0
/// - sum: count
/// - average: count / number of micro-batches
class StepLoss {
public:
  /// `parts` is the result of `splitLoss`, and `type` is the type of the accumulators. The `parts`
  /// of the functions below may belong to clones of the same forward. Such parts have the same
  /// kinds in the same order, but other values.
  StepLoss(llvm::ArrayRef<LossPart> parts, mlir::RankedTensorType type);

  mlir::LogicalResult addVariables(ir::VariableTable &variables);
  /// Returns the different kinds of the parts, joined by '+': "step" (means), "sum", "micro-batch"
  /// (average). Example: "step+sum".
  std::string describe() const;
  /// Returns true if the program needs `@count`: for several parts, or for a count that is a
  /// function of sums.
  bool needsCount() const;

  /// Accumulates the counts of the step, in `@count`.
  void accumulateCounts(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// Accumulates the loss, in `@micro_batch`. Returns the value to differentiate.
  mlir::Value accumulate(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// Returns the named results of the loss in `@evaluate`: the sum and count of each part, and
  /// `plus` and `least` of the count (see `CountForm`).
  llvm::SmallVector<std::pair<std::string, mlir::Value>>
  makeResults(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// Writes `@loss` in `@update`: `@loss.sum` / `@loss.count`, or 0 if the count is 0.
  void writeLoss(mlir::OpBuilder &builder, mlir::Location loc);

private:
  using Kind = LossPart::Kind;

  /// Returns the count of a mean over the whole step, in `@micro_batch`.
  mlir::Value makeCount(mlir::OpBuilder &builder, const LossPart &mean, unsigned part);
  mlir::Value widen(mlir::OpBuilder &builder, mlir::Value value);
  /// Returns the factor of a part after the first, or null if the factor is 1. `count` is the count
  /// of the step, or null if it is 1.
  mlir::Value makeFactor(mlir::OpBuilder &builder, const LossPart &term, unsigned part,
                         mlir::Value count);
  mlir::Value combine(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);

  llvm::SmallVector<Kind> kinds;
  /// Number of sums from which the count of each part is computed (`LossPart::counted`); 0 if the
  /// count itself is accumulated, or if the part has no count.
  llvm::SmallVector<unsigned> numCounted;
  mlir::RankedTensorType type;
  ps::VariableOp loss, sum, count, microBatches;
  /// Variables of the counted sums of each mean.
  llvm::SmallVector<llvm::SmallVector<ps::VariableOp>> counted;
};

} // namespace parashard::training

#endif
