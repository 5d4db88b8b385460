// The loss of a step in terms of its micro-batches: the variables that hold it, and what fills
// them.
#ifndef PARASHARD_LIB_TRAINING_STEPLOSS_H
#define PARASHARD_LIB_TRAINING_STEPLOSS_H

#include "LossForm.h"
#include "lib/IR/Symbols.h"

namespace parashard {

/// What `@count`, `@micro_batch`, `@evaluate` and `@update` do about the loss. Gradients and
/// `@loss.sum` are accumulated of count x loss, and divided once, by `@loss.count`: the count of
/// the first mean over the whole step, 1 where there is none. With a single part that needs nothing
/// beforehand; else the factors of the other parts (count / their count, count, count / number of
/// micro-batches) come from `@count`, which runs over all micro-batches before the first of them.
class StepLoss {
public:
  /// `parts`: as `splitLoss` gives them, in every copy of the forward; `type`: of the accumulators.
  StepLoss(llvm::ArrayRef<LossPart> parts, mlir::RankedTensorType type);

  mlir::LogicalResult addVariables(VariableTable &variables);
  /// "step", "sum", "micro-batch", or several of them joined by '+': how the parts are averaged.
  std::string describe() const;
  bool needsCount() const;

  /// In `@count`: adds up what the step counts.
  void accumulateCounts(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// In `@micro_batch`: accumulates the parts; the value that is differentiated with cotangent 1.
  mlir::Value accumulate(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// In `@evaluate`: a sum and a count of each part, by name.
  llvm::SmallVector<std::pair<std::string, mlir::Value>>
  makeResults(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);
  /// In `@update`: `@loss` is the step's sum divided by its count, 0 where nothing was counted.
  void writeLoss(mlir::OpBuilder &builder, mlir::Location loc);

private:
  using Kind = LossPart::Kind;

  /// The count of a mean over the whole step, in `@micro_batch`.
  mlir::Value makeCount(mlir::OpBuilder &builder, const LossPart &mean, unsigned part);
  mlir::Value widen(mlir::OpBuilder &builder, mlir::Value value);
  /// What a part is multiplied by; null for 1. `count`: the step's; null for 1.
  mlir::Value makeFactor(mlir::OpBuilder &builder, const LossPart &term, unsigned part,
                         mlir::Value count);
  mlir::Value combine(mlir::OpBuilder &builder, llvm::ArrayRef<LossPart> parts);

  llvm::SmallVector<Kind> kinds;
  llvm::SmallVector<unsigned> numCounted; ///< by part; 0 where the count is what is counted
  mlir::RankedTensorType type;
  ps::VariableOp loss, sum, count, microBatches;
  llvm::SmallVector<llvm::SmallVector<ps::VariableOp>> counted; ///< by mean, what it counts
};

} // namespace parashard

#endif
