// Finds the linear layers to compute in fp8, and reports those whose dims do not fit.
#ifndef PARASHARD_LIB_PRECISION_LINEARS_H
#define PARASHARD_LIB_PRECISION_LINEARS_H

#include "OpClasses.h"

namespace parashard::precision {

/// A contraction of the forward with one weight.
struct Linear {
  /// Name of the weight; with a number after the first contraction of that weight.
  std::string name;
  ps::ContractOp op;
  bool weightIsLeft = false;
  mlir::Value input, weight; ///< operands of `op` before rounding
};

/// Returns the variable that a value is read from, possibly with its elements moved; else null.
ps::VariableOp getReadVariable(mlir::Value value);

/// Finds linear layers in functions whose values have their final types.
class LinearFinder {
public:
  LinearFinder(mlir::ModuleOp module, const PrecisionSpec::Float8 &options)
      : module(module), options(options) {}

  /// Returns the linear layer of `op` if it is a contraction of the forward that may be rounded.
  std::optional<Linear> match(mlir::Operation *op) const;
  /// Returns true if all dims are multiples of 16. Records the layer for the report if not, and if
  /// `isReported`.
  bool fits(const Linear &linear, bool isReported);
  /// Reports the recorded layers: as an error with misfit=error, else as a warning.
  mlir::LogicalResult reportMisfits();

private:
  mlir::ModuleOp module;
  const PrecisionSpec::Float8 &options;
  llvm::SmallVector<std::pair<mlir::Operation *, std::string>> misfits;
};

} // namespace parashard::precision

#endif
