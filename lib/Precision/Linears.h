// Finds the linear layers to compute in fp8, and reports layers whose dims are not multiples of 16.
#ifndef PARASHARD_LIB_PRECISION_LINEARS_H
#define PARASHARD_LIB_PRECISION_LINEARS_H

#include "OpClasses.h"

namespace parashard::precision {

/// A linear layer: a contraction of the forward or of `@evaluate` with exactly one weight operand.
struct Linear {
  /// Name of the weight. Later contractions of the same weight have a suffix: "w", "w.1", "w.2".
  std::string name;
  ps::ContractOp op;
  bool weightIsLeft = false;
  mlir::Value input, weight; ///< operands of `op` before quantization
};

/// Returns the variable from which a value is read. Looks through broadcast, reshape, transpose and
/// slice. Returns null for other values.
ps::VariableOp getReadVariable(mlir::Value value);

/// Finds linear layers. Runs after `TypeAssigner`.
class LinearFinder {
public:
  LinearFinder(mlir::ModuleOp module, const PrecisionSpec::Float8 &options)
      : module(module), options(options) {}

  /// Returns the linear layer of `op`. Returns nullopt if `op` is not a bf16 contraction of the
  /// forward or of `@evaluate` with one weight, or if `include` or `exclude` excludes it.
  std::optional<Linear> match(mlir::Operation *op) const;
  /// Returns true if m, n and k of the matmul are multiples of 16. Otherwise adds the layer to the
  /// report if `isReported` is set.
  bool fits(const Linear &linear, bool isReported);
  /// Prints the report, if any: as an error with misfit=error, else as a warning.
  mlir::LogicalResult reportMisfits();

private:
  mlir::ModuleOp module;
  const PrecisionSpec::Float8 &options;
  llvm::SmallVector<std::pair<mlir::Operation *, std::string>> misfits;
};

} // namespace parashard::precision

#endif
