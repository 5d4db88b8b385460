// Holds the loss of a step in terms of its micro-batches.
#ifndef PARASHARD_LIB_TRAINING_STEPLOSS_H
#define PARASHARD_LIB_TRAINING_STEPLOSS_H

#include "LossForm.h"
#include "lib/IR/Symbols.h"

namespace parashard::training {

/// Builds the ops and variables that hold the loss of a step, in all of its entries. Gradients and
/// `@loss.sum` accumulate count * loss, and are divided once by `@loss.count`. This count is the
/// first mean's count over the whole step, or 1 without a mean. With one part, no value has to be
/// computed before the micro-batches. For several parts, `@count` first runs over all
/// micro-batches. Each further part is then multiplied by a factor that depends on its kind:
///
/// - mean: count / its own count
/// - sum: count
/// - average: count / number of micro-batches
class StepLoss {
public:
  /// `parts` are the results of `splitLoss`; every copy of the forward has equal parts. `type` is
  /// the type of the accumulators.
  StepLoss(llvm::ArrayRef<LossPart> parts, mlir::RankedTensorType type);

  mlir::LogicalResult addVariables(ir::VariableTable &variables);
  /// Describes how the parts are averaged: "step", "sum", "micro-batch", or several joined by '+'.
  std::string describe() const;
  bool needsCount() const;

  /// Adds up the counts of the step, in `@count`.
  void accumulateCounts(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// Accumulates the parts, in `@micro_batch`. Returns the value to differentiate with cotangent 1.
  mlir::Value accumulate(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// Returns a named sum and count of each part, in `@evaluate`.
  llvm::SmallVector<std::pair<std::string, mlir::Value>>
  makeResults(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// Writes `@loss` in `@update`: the step's sum divided by its count, or 0 if the count is 0.
  void writeLoss(mlir::OpBuilder &builder, mlir::Location loc);

private:
  using Kind = LossPart::Kind;

  /// Returns the count of a mean over the whole step, in `@micro_batch`.
  mlir::Value makeCount(mlir::OpBuilder &builder, const LossPart &mean, unsigned part);
  mlir::Value widen(mlir::OpBuilder &builder, mlir::Value value);
  /// Returns the factor of a part; null for 1. `count` is the step's count; null for 1.
  mlir::Value makeFactor(mlir::OpBuilder &builder, const LossPart &term, unsigned part,
                         mlir::Value count);
  mlir::Value combine(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);

  llvm::SmallVector<Kind> kinds;
  llvm::SmallVector<unsigned> numCounted; ///< by part; 0 if the count is a sum itself
  mlir::RankedTensorType type;
  ps::VariableOp loss, sum, count, microBatches;
  /// Variables of a mean's counted sums, by mean.
  llvm::SmallVector<llvm::SmallVector<ps::VariableOp>> counted;
};

} // namespace parashard::training

#endif
