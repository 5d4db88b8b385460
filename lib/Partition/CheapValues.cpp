// Finds the values that cost less to recompute than to send.
#include "lib/Partition/CheapValues.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/Collectives.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;

namespace parashard::partition {

/// Number of flops that a device is assumed to compute in the time that a link needs for one byte.
static constexpr int64_t kFlopsPerByte = 1000;

static bool isForward(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return phase && (phase.getValue() == Phase::Forward || phase.getValue() == Phase::Evaluate);
}

/// Returns true for a read of a parameter or of any other variable except constants and buffers.
static bool readsParameter(Operation *op) {
  auto read = dyn_cast<ReadOp>(op);
  if (!read)
    return false;
  auto variable =
      SymbolTable::lookupNearestSymbolFrom<VariableOp>(op, read.getVariableAttr().getAttr());
  return !variable || (variable.getKind() != VariableKind::Constant &&
                       variable.getKind() != VariableKind::Buffer);
}

CheapValues::CheapValues(func::FuncOp function) : cloneable(findCloneableOps(function)) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    bool known = llvm::all_of(op.getOperands(), [&](Value operand) {
      Operation *producer = operand.getDefiningOp();
      return !producer || fromInputs.contains(producer);
    });
    bool computes = cloneable.contains(&op) || (isForward(&op) && !isa<ReadOp>(op));
    if (known && computes && !readsParameter(&op) && op.getNumRegions() == 0 && isPure(&op) &&
        !isa<RandomOpInterface>(op) && !isCollective(&op))
      fromInputs.insert(&op);
  }
}

SmallVector<Operation *> CheapValues::getCone(Value value) const {
  llvm::SetVector<Operation *> cone;
  std::function<void(Operation *)> add = [&](Operation *op) {
    if (!op || cloneable.contains(op) || cone.contains(op))
      return;
    for (Value operand : op->getOperands())
      add(operand.getDefiningOp());
    cone.insert(op);
  };
  add(value.getDefiningOp());
  return cone.takeVector();
}

static int64_t countFlops(Operation *op) {
  if (auto cost = dyn_cast<CostOpInterface>(op)) {
    OpCost of = cost.getCost(op->getOperandTypes(), op->getResultTypes());
    return of.contractionFlops + of.otherFlops;
  }
  return cast<RankedTensorType>(op->getResult(0).getType()).getNumElements();
}

bool CheapValues::isCheap(Value value) const {
  Operation *producer = value.getDefiningOp();
  if (!producer || !fromInputs.contains(producer))
    return false;
  int64_t most = getByteSize(value.getType()) * kFlopsPerByte, flops = 0;
  for (Operation *op : getCone(value))
    flops += countFlops(op);
  return flops <= most;
}

} // namespace parashard::partition
