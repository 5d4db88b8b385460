// Verifiers of started communication and of waiting for it.
#include "dialects/rank/Rank.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::rank;

static LogicalResult verifyAxes(StartOp op) {
  ps::MeshOp mesh = ps::getMesh(op);
  llvm::StringSet<> seen;
  for (StringAttr axis : op.getAxes().getAsRange<StringAttr>()) {
    if (!seen.insert(axis.getValue()).second)
      return op.emitOpError("(start_c3) axis ") << axis << " is named twice";
    if (mesh && mesh.getAxisSize(axis) == 0)
      return op.emitOpError("(start_c3) the mesh has no axis ") << axis;
  }
  return success();
}

LogicalResult StartOp::verify() {
  StringRef collective = getCollective();
  bool reduces = collective == "all_reduce" || collective == "reduce_scatter";
  if (!reduces && collective != "all_gather")
    return emitOpError("(start_c1) collective is \"")
           << collective << "\", known are all_reduce, reduce_scatter, all_gather";
  if (reduces && !getKind())
    return emitOpError("(start_c1) \"") << collective << "\" needs a kind (sum, max, min)";
  if (getOperands().size() != getResults().size())
    return emitOpError("(start_c2) has ")
           << getOperands().size() << " operands and " << getResults().size() << " results";
  if (collective == "all_reduce" && TypeRange(getOperands()) != TypeRange(getResults()))
    return emitOpError("(start_c2) all_reduce has operands of ")
           << getOperands().getTypes() << " and results of " << getResults().getTypes();
  if (failed(verifyAxes(*this)))
    return failure();
  size_t dims = getDims() ? getDims()->size() : 0;
  size_t expected = collective == "all_reduce" ? 0 : getOperands().size();
  if (dims != expected)
    return emitOpError("(start_c4) has ") << dims << " dims, expected " << expected;
  return success();
}

LogicalResult WaitOp::verify() {
  for (Operation *user : getToken().getUsers())
    if (user != *this && isa<WaitOp>(user))
      return emitOpError("(wait_c1) the token is waited for twice");
  return success();
}
