// Declares level 1 (training): adds backward, gradient accumulation and update to an imported
// model.
#ifndef PARASHARD_TRAINING_H
#define PARASHARD_TRAINING_H

#include "dialects/ps/Marks.h"
#include "dialects/ps/Ps.h"
#include "mlir/Pass/Pass.h"
#include <string>

namespace parashard::training {

/// Value of `ps.batch_dim` for an input without a batch dim, and for a result that does not depend
/// on the batch.
inline constexpr int64_t kNoBatch = -1;
/// Value of `ps.batch_dim` for a result that depends on all samples, such as their mean.
inline constexpr int64_t kWholeBatch = -2;

/// Adds the loss `kind` (cross_entropy, causal_lm, mse) to `@forward`, with a new input `labels`.
/// `output` is the name or number of the model's output. If `output` is empty, takes output 0 if
/// its type fits the loss, else the only output that fits.
mlir::LogicalResult addLoss(mlir::ModuleOp module, llvm::StringRef kind, llvm::StringRef output);

/// Options of automatic differentiation.
struct AutodiffOptions {
  /// Number or name of the loss output. "none": cotangents are arguments. Empty: output 0 if it is
  /// a floating-point scalar, else the only floating-point scalar output.
  std::string loss;
  /// Outputs to differentiate if the loss is "none"; empty: all floating-point outputs.
  llvm::SmallVector<std::string> differentiate;
  /// Globs of frozen parameters.
  llvm::SmallVector<std::string> freeze;
  /// "step", "micro-batch", or empty: step if the loss is a sum or a mean over samples, else
  /// micro-batch.
  std::string lossAverage;
  /// Batch dims of inputs: INPUT=D, INPUT=none or none. The default is dim 0.
  llvm::SmallVector<std::string> batchDims;
  /// Train the model in its `model.eval()` form: without dropout, with fixed running statistics.
  bool evalMode = false;
  /// Scale the loss: backward starts from `@loss_scale` instead of 1, so that small cotangents do
  /// not underflow in f16. Without a loss, all cotangents are multiplied by the scale.
  bool scaleLoss = false;
  /// Create only `@evaluate`. The model then needs no loss.
  bool inference = false;
  /// Outputs that `@micro_batch` returns although there is a loss; {"all"}: all outputs with a
  /// batch dim, and those that do not depend on the batch.
  llvm::SmallVector<std::string> keepOutputs;
};

/// Turns `@forward` into `@micro_batch`, `@evaluate` and `@update` (or only `@evaluate`). Emits
/// diagnostics on failure.
mlir::LogicalResult buildTraining(mlir::ModuleOp module, const AutodiffOptions &options);

/// Options of the optimizer.
struct OptimizerOptions {
  /// Optimizers such as "[GLOB=|ndim<2=]adamw(lr=1e-3,...)" or "@FILE.json", separated by ';'. The
  /// first optimizer that matches a parameter updates this parameter.
  std::string optimizer;
  /// Maximum global norm of the gradients. Gradients with a larger norm are scaled down to this
  /// norm. 0: no clipping.
  double clipNorm = 0;
  /// Decay of the moving average (EMA) of each parameter; 0: none.
  double ema = 0;
};

/// Adds the optimizer step of every parameter with a gradient to `@update`. Emits diagnostics on
/// failure.
mlir::LogicalResult buildUpdate(mlir::ModuleOp module, const OptimizerOptions &options);

/// Counts the flops of the contractions, convolutions and attentions of `@micro_batch`, or of
/// `@evaluate` if the module has no `@micro_batch`. Sets `ps.flops` (kFlopsMark).
void countFlops(mlir::ModuleOp module);

/// Verifies the constraints of level 1.
mlir::LogicalResult verifyTraining(mlir::ModuleOp module);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Training/Passes.h.inc"

} // namespace parashard::training

#endif
