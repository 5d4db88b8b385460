// Implements ps-verify-imported, which checks the constraints of level 0.
#include "dialects/ps/Ps.h"
#include "dialects/ps/VerifyModule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "parashard/Import.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::import {

/// Checks that an op belongs to the dialect `ps` (or is func.return), is not a collective, has a
/// location, and has no phase.
static LogicalResult verifyOp(Operation *op) {
  if (!isa<func::ReturnOp>(op) && !isa_and_nonnull<PSDialect>(op->getDialect()))
    return op->emitOpError("(imported_c2) is not an op of the dialect ps");
  if (isa<AllReduceOp, ReduceScatterOp, AllGatherOp, AllToAllOp, PermuteOp>(op))
    return op->emitOpError(
        "(imported_c2) is a collective, which is only allowed from level partitioned on");
  if (isa<UnknownLoc>(op->getLoc()))
    return op->emitOpError("(imported_c3) has no location");
  if (op->hasAttr(kPhaseMark))
    return op->emitOpError(
        "(imported_c2) has a phase, which is only allowed from level training on");
  return success();
}

LogicalResult verifyImported(ModuleOp module) {
  if (failed(ps::verifyModule(module)))
    return failure();
  for (Operation &op : module.getOps()) {
    if (!isa<VariableOp, func::FuncOp>(op))
      return op.emitOpError("(imported_c1) is neither a function nor a variable");
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      continue;
    if (function.isExternal())
      return function.emitOpError("(imported_c1) has no body");
    for (Operation &inside : function.getOps())
      if (failed(verifyOp(&inside)))
        return failure();
  }
  return success();
}

} // namespace parashard::import
