// Finds cloneable ops, such as constants and reads.
#include "lib/IR/Cloneable.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::ir {

/// Returns the variables that a function writes. Accumulations do not count as writes.
static DenseSet<Attribute> findWritten(func::FuncOp function) {
  DenseSet<Attribute> written;
  function.walk([&](WriteOp write) { written.insert(write.getVariableAttr()); });
  return written;
}

/// Returns true for constants, iotas, shard indices, shard slices, conversions and movement ops.
static bool isCheapToClone(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>() ||
      isa<IotaOp, ConvertOp, ShardIndexOp, ShardSliceOp>(op))
    return true;
  auto lowering = dyn_cast<LoweringOpInterface>(op);
  return lowering && lowering.getLoweringKind() == LoweringKind::Movement;
}

DenseSet<Operation *> findCloneableOps(func::FuncOp function) {
  DenseSet<Attribute> written = findWritten(function);
  DenseSet<Operation *> cloneable;
  for (Operation &op : function.getBody().front()) {
    bool fromCloneables = llvm::all_of(op.getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return producer && cloneable.contains(producer);
    });
    auto read = dyn_cast<ReadOp>(op);
    bool isCheap = read ? !written.contains(read.getVariableAttr()) : isCheapToClone(&op);
    if (fromCloneables && isCheap && op.getNumRegions() == 0)
      cloneable.insert(&op);
  }
  return cloneable;
}

} // namespace parashard::ir
