// Declares the listener that copies discardable attributes ("marks") from replaced ops to new ops.
#ifndef PARASHARD_DIALECTS_PS_MARKLISTENER_H
#define PARASHARD_DIALECTS_PS_MARKLISTENER_H

#include "dialects/ps/Ps.h"
#include "mlir/IR/PatternMatch.h"

namespace parashard::ps {

/// Copies discardable attributes from a replaced op to the ops that replace it: phase, segment,
/// origin, recomputation, and the shardings of results with equal types. Every rewrite after level
/// 1 uses this listener.
class MarkListener : public mlir::RewriterBase::Listener {
public:
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint previous) override;
  void notifyOperationReplaced(mlir::Operation *op, mlir::ValueRange replacement) override;
  void notifyOperationErased(mlir::Operation *op) override;

private:
  llvm::SmallVector<mlir::Operation *> created; ///< ops created since the last replacement
};

} // namespace parashard::ps

#endif
