// Declares level 1 (training): adds backward, gradient accumulation and update to an imported
// model.
#ifndef PARASHARD_TRAINING_H
#define PARASHARD_TRAINING_H

#include "dialects/ps/Ps.h"
#include "mlir/Pass/Pass.h"
#include <string>

namespace parashard {

/// Attribute of the module: "step" if the loss is accumulated as (sum, count), else "micro-batch".
inline constexpr llvm::StringLiteral kLossAverageMark = "ps.loss_average";
/// Unit attribute of the module: the loss or a term of the loss is not an average over samples
/// (`isUneven`), and the user did not ask for the average over micro-batches.
inline constexpr llvm::StringLiteral kUnevenLossMark = "ps.uneven_loss";
/// Attribute of the module: location where the loss divides a sum over samples by a constant. The
/// division is taken for a mean, although the constant may not be a number of samples. Absent if
/// the user gave `--loss-average`.
inline constexpr llvm::StringLiteral kAmbiguousMeanMark = "ps.ambiguous_mean";
/// Unit attribute of the module: the sums and counts that `@evaluate` returns are multiples of sums
/// over samples. The result of a partial batch therefore follows from whole batches.
inline constexpr llvm::StringLiteral kRowSumsMark = "ps.row_sums";
/// Attribute of the module: "step", "evaluate" or both, joined by "+". The listed entries accept
/// partial batches, filled up with rows whose labels are ignored (`ignoresRows`).
inline constexpr llvm::StringLiteral kIgnoresRowsMark = "ps.ignores_rows";
/// Attribute of an argument, and of a result of `@evaluate` with dims: the batch dim (or the dim
/// whose major part is the batch), `kNoBatch` or `kWholeBatch`. Default: dim 0.
inline constexpr llvm::StringLiteral kBatchDimMark = "ps.batch_dim";
/// Value for an input without a batch dim, and for a result that does not depend on a batch.
inline constexpr int64_t kNoBatch = -1;
/// Value for a result that depends on the batch as a whole, such as a mean over the samples.
inline constexpr int64_t kWholeBatch = -2;

/// Attribute of the module: floating-point operations of all contractions and attentions of one
/// micro-batch (of one evaluation without training), counted before anything is sharded.
inline constexpr llvm::StringLiteral kFlopsMark = "ps.flops";

/// Attribute of a parameter if there are several optimizers: the scalar variable of its learning
/// rate.
inline constexpr llvm::StringLiteral kRateMark = "ps.lr";
/// Attribute of optimizer state that all parameters of a group share.
inline constexpr llvm::StringLiteral kSharedMark = "ps.shared";

/// Adds the loss `kind` (cross_entropy, causal_lm, mse) to `@forward`, with a new input `labels`.
/// `output` is the name or number of the model's output; empty: the first or only one that fits.
mlir::LogicalResult addLoss(mlir::ModuleOp module, llvm::StringRef kind, llvm::StringRef output);

/// Options of automatic differentiation.
struct AutodiffOptions {
  /// Number or name of the loss output. "none": cotangents are arguments. Empty: output 0 if it is
  /// a floating-point scalar, else the only floating-point scalar output.
  std::string loss;
  /// Outputs that get cotangents if the loss is "none"; empty: all floating-point outputs.
  llvm::SmallVector<std::string> differentiate;
  /// Globs of frozen parameters.
  llvm::SmallVector<std::string> freeze;
  /// "step", "micro-batch", or empty: step if the form of the loss is recognized.
  std::string lossAverage;
  /// INPUT=D or INPUT=none: batch dim of an input, if not dim 0.
  llvm::SmallVector<std::string> batchDims;
  /// Train the model in its `model.eval()` form: without dropout, with fixed running statistics.
  bool evalMode = false;
  /// Start backward from `@loss_scale`, so that small cotangents do not vanish in f16. Without a
  /// loss, multiply the given cotangents by the scale.
  bool scaleLoss = false;
  /// Create only `@evaluate`. The model then needs no loss.
  bool inference = false;
};

/// Turns `@forward` into `@micro_batch`, `@evaluate` and `@update` (or only `@evaluate`). Emits
/// diagnostics on failure.
mlir::LogicalResult buildTraining(mlir::ModuleOp module, const AutodiffOptions &options);

/// Options of the optimizer.
struct OptimizerOptions {
  /// "[GLOB=|ndim<2=]adamw(lr=1e-3,...)", separated by ';'. The first that matches a parameter
  /// applies.
  std::string optimizer;
  /// Largest global norm of the gradients, which are scaled down to it; 0: no clipping.
  double clipNorm = 0;
  /// Decay of the moving average (EMA) of each parameter; 0: none.
  double ema = 0;
};

/// Adds the optimizer step of every parameter with a gradient to `@update`. Emits diagnostics on
/// failure.
mlir::LogicalResult buildUpdate(mlir::ModuleOp module, const OptimizerOptions &options);

/// Counts the operations and sets `kFlopsMark`.
void countFlops(mlir::ModuleOp module);

/// Verifies the constraints of level 1.
mlir::LogicalResult verifyTraining(mlir::ModuleOp module);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Training/Passes.h.inc"

} // namespace parashard

#endif
