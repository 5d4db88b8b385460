// Imports an exported model as a module of level 0 (see docs/levels.md).
#ifndef PARASHARD_IMPORT_H
#define PARASHARD_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"
#include <string>
#include <vector>

namespace parashard {

struct ImportOptions {
  /// "INPUT.D=N" or "SYMBOL=N", as `--dim`.
  std::vector<std::string> dims;
  /// The size of the batch dims; 0 where not given.
  int64_t batch = 0;
  /// "INPUT=D", "INPUT=none" or "none", as `--batch-dim`.
  std::vector<std::string> batchDims;
};

/// Imports a `.pt2` archive of torch.export. Weights are referenced in the archive, never copied.
/// Null after an error, which is told to the context's diagnostic handlers; `notes` gets a line for
/// each thing that was assumed (sizes of dims that were not bound).
mlir::OwningOpRef<mlir::ModuleOp> importPt2(mlir::MLIRContext &context, llvm::StringRef path,
                                            const ImportOptions &options,
                                            std::vector<std::string> &notes);

/// Imports an `.onnx` file (opsets 13 to 25), as `importPt2` does an archive. Parameters are the
/// floating initializers, or those that torch's exporter lists as such; what it folded into
/// constants or merged is told in a warning.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                             const ImportOptions &options,
                                             std::vector<std::string> &notes);

/// On `ps.attention`: which keys a query sees, in words: "full", "causal", "causal, window 128",
/// "padding", ...
inline constexpr llvm::StringLiteral kAttentionFormMark = "ps.attention_form";

/// On the module: how labels follow from tokens, read from the graph: `kLabelsNext` (labels[t] is
/// the token after x[t]) or `kLabelsSame` (the model shifts them itself); absent where it says
/// neither.
inline constexpr llvm::StringLiteral kLabelsMark = "ps.labels";
inline constexpr llvm::StringLiteral kLabelsNext = "next";
inline constexpr llvm::StringLiteral kLabelsSame = "same";
/// On arguments: "labels" for those of a loss; values are in [0, limit), or `ignore`.
inline constexpr llvm::StringLiteral kRoleMark = "ps.role";
inline constexpr llvm::StringLiteral kLimitMark = "ps.limit";
inline constexpr llvm::StringLiteral kIgnoreMark = "ps.ignore";
/// On the module, a location of the model: there it computes with the number of samples of a batch,
/// and does not divide by it. A micro-batch has another number than the whole batch.
inline constexpr llvm::StringLiteral kBatchNumberMark = "ps.batch_number";

/// softmax(q k^T scale + mask) v written out becomes `ps.attention`; the number of them.
int64_t recognizeAttention(mlir::ModuleOp module);
/// Masks that are proven causal, a band, padding or all true become attributes of their attention;
/// the number of masks that went away. One that stays, but is the same for all queries, is left
/// with one row. Every attention gets its form.
int64_t recognizeAttentionMasks(mlir::ModuleOp module);
/// GELU and SiLU that are written out become their ops; how many.
int64_t recognizeActivations(mlir::ModuleOp module);
/// Key and value heads that are repeated for their queries become grouped queries; the number of
/// attentions changed.
int64_t recognizeGroupedQueries(mlir::ModuleOp module);
/// Inputs that index a table or are labels get their range and role, the module the labels' shift.
void recognizeLabels(mlir::ModuleOp module);
/// A weight whose matmul is only read in parts becomes one variable a part; the number of
/// variables that were split.
int64_t splitFusedVariables(mlir::ModuleOp module);

/// Parameters without values in the file get those of the first rule ("[GLOB=]normal(0.02)") that
/// matches; one that none matches is an error that names it. With `given`, weights come when the
/// program runs: rules are of all parameters, also of those with values, and none needs one. A rule
/// whose glob matches no parameter is an error, one that changes nothing a warning.
mlir::LogicalResult setInitialValues(mlir::ModuleOp module, llvm::ArrayRef<std::string> rules,
                                     bool given = false);

/// One warning when dropout is off in a model that is to be trained: it was exported in eval mode.
void warnOfEvalMode(mlir::ModuleOp module);

/// Fails where a name of the module is not UTF-8. The importers have checked theirs.
mlir::LogicalResult checkText(mlir::ModuleOp module);

/// Fails where `ps-verify-imported` does.
mlir::LogicalResult verifyImported(mlir::ModuleOp module);

void registerImportPasses();
std::unique_ptr<mlir::Pass> createCheckModePass();
std::unique_ptr<mlir::Pass> createRecognizeActivationsPass();
std::unique_ptr<mlir::Pass> createRecognizeAttentionPass();
std::unique_ptr<mlir::Pass> createRecognizeAttentionMasksPass();
std::unique_ptr<mlir::Pass> createRecognizeGroupedQueriesPass();
std::unique_ptr<mlir::Pass> createRecognizeLabelsPass();
std::unique_ptr<mlir::Pass> createSetInitialValuesPass();
std::unique_ptr<mlir::Pass> createSplitFusedVariablesPass();

} // namespace parashard

#endif
