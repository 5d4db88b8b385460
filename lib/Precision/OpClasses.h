// The table of ops by class of precision, and what a user overrides in it.
#ifndef PARASHARD_LIB_PRECISION_OPCLASSES_H
#define PARASHARD_LIB_PRECISION_OPCLASSES_H

#include "dialects/ps/Ps.h"
#include "parashard/Precision.h"

namespace parashard {

enum class PrecisionClass {
  Compute, ///< in the 16-bit type
  Fp32,    ///< in f32
  Widest,  ///< in the widest type of its operands
};

/// How an op stands in the table. `operands` and `results`: how many of them, from the first on,
/// have the op's type (-1: all); what follows is masks and statistics, of types of their own.
struct PrecisionRow {
  llvm::StringLiteral op;
  PrecisionClass kind;
  int operands = -1, results = -1;
};

/// The ops that are not of class `widest`, or have statistics.
llvm::ArrayRef<PrecisionRow> getPrecisionTable();

/// Whether a glob is of the op's name, or of its module or one around it.
bool matchesOp(mlir::Operation *op, llvm::StringRef glob);
bool matchesAny(mlir::Operation *op, llvm::ArrayRef<std::string> globs);

/// The table with a user's overrides.
class OpClasses {
public:
  explicit OpClasses(const PrecisionSpec &spec);
  /// The row of an op, its class overridden.
  PrecisionRow lookup(mlir::Operation *op) const;
  /// Fails with a diagnostic on a glob that matches no op of the module.
  mlir::LogicalResult checkGlobs(mlir::ModuleOp module) const;

private:
  const PrecisionSpec &spec;
  llvm::StringMap<PrecisionRow> rows;
};

} // namespace parashard

#endif
