// Finds the linear layers that are computed in fp8, and lists those whose dims do not fit.
#ifndef PARASHARD_LIB_PRECISION_LINEARS_H
#define PARASHARD_LIB_PRECISION_LINEARS_H

#include "OpClasses.h"

namespace parashard {

/// A contraction of forward with one weight.
struct Linear {
  std::string name; ///< of its weight; with a number where there are several
  ps::ContractOp op;
  bool weightIsLeft = false;
  mlir::Value input, weight; ///< as they were before they were rounded
};

/// The variable that a value is read from, also where its elements are moved; or null.
ps::VariableOp getReadVariable(mlir::Value value);

/// Looks at functions whose ops have their types.
class LinearFinder {
public:
  LinearFinder(mlir::ModuleOp module, const PrecisionSpec::Float8 &options)
      : module(module), options(options) {}

  /// The contraction with its weight, if it is one of forward that may be rounded.
  std::optional<Linear> match(mlir::Operation *op) const;
  /// Whether all its dims are multiples of 16; others are kept for the report.
  bool fits(const Linear &linear, bool isReported);
  /// Lists what did not fit: a warning, or an error where the options ask for it.
  mlir::LogicalResult reportMisfits();

private:
  mlir::ModuleOp module;
  const PrecisionSpec::Float8 &options;
  llvm::SmallVector<std::pair<mlir::Operation *, std::string>> misfits;
};

} // namespace parashard

#endif
