// Imports an exported model as a module of level 0 (see docs/levels.md).
#ifndef PARASHARD_IMPORT_H
#define PARASHARD_IMPORT_H

#include "dialects/ps/Marks.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/Pass.h"
#include <string>
#include <vector>

namespace parashard::import {

struct ImportOptions {
  /// Sizes of dims, "INPUT.D=N" or "SYMBOL=N" (`--dim`).
  std::vector<std::string> dims;
  /// Size of the batch dims; 0 if not given.
  int64_t batch = 0;
  /// Batch dims of inputs, "INPUT=D", "INPUT=none" or "none" (`--batch-dim`).
  std::vector<std::string> batchDims;
  /// Factor by which to multiply the batch size (`batch`, or the size in the export). With a factor
  /// above 1, the import fails if the export has a fixed batch size.
  int64_t batchFactor = 1;
  /// Names of buffers that stay variables, although the graph does not write them. Other small
  /// buffers that are not persistent become constants.
  std::vector<std::string> buffers;
};

/// Imports a `.pt2` archive of torch.export. Weights are referenced in the archive, not copied.
/// Emits a diagnostic and returns null on an error. Appends a line to `notes` for each assumption,
/// such as the size of an unbound dim.
mlir::OwningOpRef<mlir::ModuleOp> importPt2(mlir::MLIRContext &context, llvm::StringRef path,
                                            const ImportOptions &options,
                                            std::vector<std::string> &notes);

/// Imports an `.onnx` file (opsets 13 to 25). Arguments, result and errors are the same as for
/// `importPt2`. Parameters are the initializers that torch's exporter lists as parameters. Without
/// such a list, all floating-point initializers are parameters. A warning lists parameters that the
/// exporter merged or folded into constants.
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(mlir::MLIRContext &context, llvm::StringRef path,
                                             const ImportOptions &options,
                                             std::vector<std::string> &notes);

/// Moves the function @forward of `source` into `module`, as the inference entry `name`. Variables
/// with equal names become one variable, and other variables are moved. Emits a diagnostic if two
/// variables with equal names have different types or kinds, or if a symbol is already in use.
mlir::LogicalResult addEntry(mlir::ModuleOp module, llvm::StringRef name,
                             mlir::OwningOpRef<mlir::ModuleOp> source);
/// Returns true if functions or variables of the compiler have the name. Examples: "evaluate",
/// "step", "lr". An inference entry must have another name.
bool isReservedEntry(llvm::StringRef name);

/// Values of `ps.labels` (kLabelsMark), for a token sequence x. "next": the data must contain
/// labels[t] = x[t + 1]. "same": the data must contain labels[t] = x[t], and the model shifts the
/// labels.
inline constexpr llvm::StringLiteral kLabelsNext = "next";
inline constexpr llvm::StringLiteral kLabelsSame = "same";

/// Replaces softmax(q k^T scale + mask) v by `ps.attention`. Returns the number of replacements.
int64_t recognizeAttention(mlir::ModuleOp module);
/// Removes each mask that is proven to be causal, banded, a padding mask or all true. Instead of
/// the mask, the attention op gets the attributes `causal` and `window`, or the operand `padding`,
/// as needed. Returns the number of attention ops whose mask was removed. A remaining mask that is
/// equal for all queries is reduced to one row. Sets `ps.attention_form` on every attention op.
int64_t recognizeAttentionMasks(mlir::ModuleOp module);
/// Replaces expressions that compute GELU or SiLU by `ps.gelu` or `ps.silu`. Returns the number of
/// replacements.
int64_t recognizeActivations(mlir::ModuleOp module);
/// Replaces repeated key and value heads by grouped-query attention. Returns the number of
/// attention ops changed.
int64_t recognizeGroupedQueries(mlir::ModuleOp module);
/// Sets the role and range of inputs that are labels or token ids. Sets the label shift
/// (kLabelsMark) on the module.
void recognizeLabels(mlir::ModuleOp module);
/// Splits a weight, such as a fused QKV weight, into several variables if its matmul result is only
/// used in slices. Returns the number of weights that were split.
int64_t splitFusedVariables(mlir::ModuleOp module);

/// Initializes each parameter without values by the first rule that matches its name, such as
/// "[GLOB=]normal(0.02)". Fails on a parameter without a rule, and on a rule whose glob matches no
/// parameter. Warns about a rule without effect. With `given`, the user passes the weights at run
/// time. Rules then apply to all parameters, and no parameter needs a rule.
mlir::LogicalResult setInitialValues(mlir::ModuleOp module, llvm::ArrayRef<std::string> rules,
                                     bool given = false);

/// Warns if a model to be trained was exported in eval mode, so that dropout is off, or batch norms
/// use running statistics.
void warnOfEvalMode(mlir::ModuleOp module);

/// Fails if a name in the module is not valid UTF-8.
mlir::LogicalResult checkText(mlir::ModuleOp module);

/// Verifies the constraints of level 0.
mlir::LogicalResult verifyImported(mlir::ModuleOp module);

/// Registers the passes of level 0 by name.
void registerImportPasses();
std::unique_ptr<mlir::Pass> createCheckModePass();
std::unique_ptr<mlir::Pass> createRecognizeActivationsPass();
std::unique_ptr<mlir::Pass> createRecognizeAttentionPass();
std::unique_ptr<mlir::Pass> createRecognizeAttentionMasksPass();
std::unique_ptr<mlir::Pass> createRecognizeGroupedQueriesPass();
std::unique_ptr<mlir::Pass> createRecognizeLabelsPass();
std::unique_ptr<mlir::Pass> createSetInitialValuesPass();
std::unique_ptr<mlir::Pass> createSplitFusedVariablesPass();

} // namespace parashard::import

#endif
