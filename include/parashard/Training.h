// Level 1, training: the backward, the accumulators and the update of an imported model.
#ifndef PARASHARD_TRAINING_H
#define PARASHARD_TRAINING_H

#include "dialects/ps/Ps.h"
#include "mlir/Pass/Pass.h"
#include <string>

namespace parashard {

/// On the module: "step" when the loss is accumulated as (sum, count), else "micro-batch".
inline constexpr llvm::StringLiteral kLossAverageMark = "ps.loss_average";
/// On the module, a unit: the loss or a term of it is no average over samples (`isUneven`), and
/// nobody asked for the average over micro-batches.
inline constexpr llvm::StringLiteral kUnevenLossMark = "ps.uneven_loss";
/// On the module, a location: there the loss divides a sum over samples by a constant, which is
/// taken for a mean although the constant may be no number of samples, and nobody asked for an
/// average.
inline constexpr llvm::StringLiteral kAmbiguousMeanMark = "ps.ambiguous_mean";
/// On the module, a unit: the sums and counts of the loss that `@evaluate` returns are multiples of
/// sums over the samples of its batch, so that those of fewer samples follow from whole batches.
inline constexpr llvm::StringLiteral kRowSumsMark = "ps.row_sums";
/// On the module: "step", "evaluate" or both, joined by "+". What is listed takes fewer samples
/// than its batch has: it is filled up with rows whose labels are ignored (`ignoresRows`).
inline constexpr llvm::StringLiteral kIgnoresRowsMark = "ps.ignores_rows";
/// On an argument, and on a result of `@evaluate` that has dims: the dim that is the batch, or
/// whose major part is; `kNoBatch`, `kWholeBatch`; absent: dim 0.
inline constexpr llvm::StringLiteral kBatchDimMark = "ps.batch_dim";
/// The mark of an input without a batch, and of a result that depends on none.
inline constexpr int64_t kNoBatch = -1;
/// The mark of a result that is one of a batch, not of its samples: a mean over them.
inline constexpr int64_t kWholeBatch = -2;

/// On the module: floating-point operations of the contractions and attentions of a micro-batch (of
/// an evaluation, where there is no training), of the whole model: before anything is split.
inline constexpr llvm::StringLiteral kFlopsMark = "ps.flops";

/// On a parameter, where there are several optimizers: the scalar variable that is its learning
/// rate.
inline constexpr llvm::StringLiteral kRateMark = "ps.lr";
/// On optimizer state that all parameters of a group share: it is not its first one's alone.
inline constexpr llvm::StringLiteral kSharedMark = "ps.shared";

/// Adds the loss `kind` (cross_entropy, causal_lm, mse) of an output (its name or number; empty:
/// the first or only one that fits) to `@forward`, against a new input `labels`.
mlir::LogicalResult addLoss(mlir::ModuleOp module, llvm::StringRef kind, llvm::StringRef output);

/// What to differentiate.
struct AutodiffOptions {
  /// Number or name of the loss output; "none": cotangents are arguments; empty: output 0 when it
  /// is a floating scalar, else the only floating scalar output.
  std::string loss;
  /// Outputs that get cotangents when the loss is "none"; empty: all floating ones.
  llvm::SmallVector<std::string> differentiate;
  /// Globs of parameter names that are not trained.
  llvm::SmallVector<std::string> freeze;
  /// "step", "micro-batch", or empty: step where the form of the loss is recognised.
  std::string lossAverage;
  /// INPUT=D or INPUT=none: which dim of an input is the batch, where it is not dim 0.
  llvm::SmallVector<std::string> batchDims;
  /// Train the model as `model.eval()` has it: without dropout, with running statistics as they
  /// are.
  bool evalMode = false;
  /// Start backward from `@loss_scale`, so that small cotangents do not vanish in f16; without a
  /// loss, from the given cotangents times that.
  bool scaleLoss = false;
  /// Make `@evaluate` alone. A model needs no loss then.
  bool inference = false;
};

/// Turns `@forward` into `@micro_batch`, `@evaluate` and `@update` (or `@evaluate` alone). Emits
/// diagnostics on failure.
mlir::LogicalResult buildTraining(mlir::ModuleOp module, const AutodiffOptions &options);

/// How parameters are updated.
struct OptimizerOptions {
  /// "[GLOB=|ndim<2=]adamw(lr=1e-3,...)", separated by ';'; the first that matches a parameter
  /// wins.
  std::string optimizer;
  /// Gradients are scaled so that their norm over all parameters is at most this; 0: not at all.
  double clipNorm = 0;
  /// The decay of a moving average of each parameter, which is kept beside it; 0: none is kept.
  double ema = 0;
};

/// Adds the step of every parameter that has a gradient to `@update`. Emits diagnostics on failure.
mlir::LogicalResult buildUpdate(mlir::ModuleOp module, const OptimizerOptions &options);

/// Counts what `kFlopsMark` says.
void countFlops(mlir::ModuleOp module);

/// Checks what must hold at level 1.
mlir::LogicalResult verifyTraining(mlir::ModuleOp module);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Training/Passes.h.inc"

} // namespace parashard

#endif
