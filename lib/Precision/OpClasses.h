// Declares the precision class of each op, with the user's overrides.
#ifndef PARASHARD_LIB_PRECISION_OPCLASSES_H
#define PARASHARD_LIB_PRECISION_OPCLASSES_H

#include "dialects/ps/Ps.h"
#include "parashard/Precision.h"

namespace parashard::precision {

/// Returns true if the glob matches the op's name, its module path, or the path of an enclosing
/// module.
bool matchesOp(mlir::Operation *op, llvm::StringRef glob);
bool matchesAny(mlir::Operation *op, llvm::ArrayRef<std::string> globs);

/// Looks up the precision classes of ops for a value of `--precision`.
class OpClasses {
public:
  explicit OpClasses(const PrecisionSpec &spec) : spec(spec) {}
  /// Returns the precision that the op declares. With `half`, the class `fp32` becomes `widest`.
  /// `keep-fp32` and `compute` override the class.
  ps::OpPrecision lookup(mlir::Operation *op) const;
  /// Fails with a diagnostic if a glob matches no op of the module.
  mlir::LogicalResult checkGlobs(mlir::ModuleOp module) const;

private:
  const PrecisionSpec &spec;
};

} // namespace parashard::precision

#endif
