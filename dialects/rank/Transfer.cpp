// Verifies copies of variables and values between host memory and device memory.
#include "dialects/rank/Rank.h"
#include "shared/Counts.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::rank;

FlatSymbolRefAttr FetchOp::getVariable(OpResult result) {
  ArrayAttr variables = getVariables();
  unsigned number = result.getResultNumber();
  return number < variables.size() ? cast<FlatSymbolRefAttr>(variables[number])
                                   : FlatSymbolRefAttr();
}

/// Returns the ref type in which a variable is staged, or null if no variable has this symbol.
static ps::RefType getStagedType(FetchOp op, FlatSymbolRefAttr symbol) {
  auto variable = SymbolTable::lookupNearestSymbolFrom<ps::VariableOp>(
      op->getParentOp()->getParentOp(), symbol.getAttr());
  if (!variable)
    return {};
  RankedTensorType local = variable.getTensorType();
  if (ps::MeshOp mesh = ps::getMesh(op); mesh && variable.getSharding())
    local = ps::getLocalType(local, variable.getSharding(), mesh);
  return ps::RefType::get(op.getContext(), local);
}

LogicalResult FetchOp::verify() {
  size_t variables = getVariables().size();
  if (variables == 0 || getResults().size() != variables)
    return emitOpError("(fetch_c1) has ")
           << variables << " variables and " << describeCount(getResults().size(), "result")
           << ", expected at least one variable and one result per variable";
  for (Value result : getResults()) {
    FlatSymbolRefAttr symbol = getVariable(cast<OpResult>(result));
    ps::RefType expected = getStagedType(*this, symbol);
    if (!expected)
      return emitOpError("(fetch_c2) ") << symbol << " is not a variable";
    if (result.getType() != expected)
      return emitOpError("(fetch_c2) has a result of type ")
             << result.getType() << " for variable " << symbol << ", expected " << expected;
  }
  return success();
}

LogicalResult OffloadOp::verify() {
  if (getStaged().empty())
    return emitOpError("(offload_c1) has no operands");
  for (Value staged : getStaged())
    if (!staged.getDefiningOp<FetchOp>())
      return emitOpError("(offload_c1) has an operand that is not a result of rank.fetch");
  return success();
}

/// Returns whether the op has operands, and one result of the same type for each operand.
static bool haveEqualTypes(OperandRange operands, ResultRange results) {
  return !operands.empty() && TypeRange(operands) == TypeRange(results);
}

LogicalResult StashOp::verify() {
  if (haveEqualTypes(getOperands(), getResults()))
    return success();
  return emitOpError("(stash_c1) has operands ")
         << getOperandTypes() << " and results " << getResults().getTypes()
         << ", expected at least one operand and equal types";
}

LogicalResult UnstashOp::verify() {
  if (!haveEqualTypes(getOperands(), getResults()))
    return emitOpError("(unstash_c1) has operands ")
           << getOperandTypes() << " and results " << getResults().getTypes()
           << ", expected at least one operand and equal types";
  for (Value held : getOperands())
    if (!held.getDefiningOp<StashOp>())
      return emitOpError("(unstash_c1) has an operand that is not a result of rank.stash");
  return success();
}
