// Keeps the marks of ops through rewrites.
#ifndef PARASHARD_DIALECTS_PS_MARKLISTENER_H
#define PARASHARD_DIALECTS_PS_MARKLISTENER_H

#include "dialects/ps/Ps.h"
#include "mlir/IR/PatternMatch.h"

namespace parashard::ps {

/// Every rewrite after level 1 runs under it: an op that a rewrite makes takes the phase, the
/// segment and the origin of the op that it replaces, and its values that op's shardings where
/// types agree.
class MarkListener : public mlir::RewriterBase::Listener {
public:
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint previous) override;
  void notifyOperationReplaced(mlir::Operation *op, mlir::ValueRange replacement) override;
  void notifyOperationErased(mlir::Operation *op) override;

private:
  llvm::SmallVector<mlir::Operation *> made; ///< since the last replacement
};

} // namespace parashard::ps

#endif
