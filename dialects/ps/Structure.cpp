// Verifies ops with regions.
#include "dialects/ps/Ps.h"

using namespace mlir;
using namespace parashard::ps;

LogicalResult FusedOp::verify() {
  Block &body = getBody().front();
  if (body.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("block takes ")
           << body.getArgumentTypes() << ", inputs are " << getInputs().getTypes() << " (fused_c1)";
  auto yield = dyn_cast<YieldOp>(body.getTerminator());
  if (!yield)
    return emitOpError("block does not end in ps.yield (fused_c2)");
  if (yield.getOperandTypes() != getResultTypes())
    return emitOpError("yields ") << yield.getOperandTypes() << ", results are " << getResultTypes()
                                  << " (fused_c2)";
  return success();
}
