// Calls the cost interface with the types of one rank.
#include "lib/Pipeline/LocalCost.h"
#include "lib/IR/OpTimes.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {

Type getLocalType(Value value, MeshOp mesh) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  ShardingAttr sharding = getSharding(value);
  return type && sharding && mesh ? getLocalType(type, sharding, mesh) : value.getType();
}

OpCost getLocalCost(Operation *op, MeshOp mesh) {
  auto priced = dyn_cast<CostOpInterface>(op);
  if (!priced)
    return {};
  auto getLocal = [&](Value value) { return getLocalType(value, mesh); };
  return priced.getCost(llvm::map_to_vector(op->getOperands(), getLocal),
                        llvm::map_to_vector(op->getResults(), getLocal));
}

double getLocalSeconds(Operation *op, MeshOp mesh, const costs::Device &device) {
  OpCost cost = getLocalCost(op, mesh);
  costs::Call call = ir::getContractions(cost, op->getOperandTypes());
  call.bytes = double(cost.bytesWritten);
  return costs::getSeconds(device, call);
}

} // namespace parashard::pipeline
