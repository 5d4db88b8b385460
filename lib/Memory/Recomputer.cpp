// Clones forward ops, and redirects their uses in backward.
#include "Recomputer.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/Stages.h"
#include "lib/Sharding/OpSharding.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::memory;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::sharding;

static bool isForward(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return phase && phase.getValue() == Phase::Forward;
}

static bool isUsedAgain(OpOperand &use, int64_t segment) {
  Operation *user = use.getOwner();
  return isBackward(user) && !user->hasAttr(kRecomputedMark) && getSegment(user) == segment;
}

Recomputer::Recomputer(func::FuncOp function)
    : mesh(getMesh(function->getParentOfType<ModuleOp>())), cloneable(findCloneableOps(function)) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    std::optional<int64_t> segment = getSegment(&op);
    if (!segment || cloneable.contains(&op))
      continue;
    ForwardSegment &of = segments[*segment];
    if (isForward(&op))
      of.forward.push_back(&op);
    else if (isBackward(&op) && !of.firstBackward)
      of.firstBackward = &op;
  }
}

bool Recomputer::canRunAgain(Operation *op, bool repeatsCommunication) const {
  // When backward runs, a variable that forward writes has another value.
  bool readsWritten = isa<ReadOp>(op) && !cloneable.contains(op);
  return isPure(op) && !readsWritten && !op->getNumRegions() &&
         (repeatsCommunication || !moves(op));
}

/// Returns true if running the op again needs additional communication: its result is reduced or
/// resharded, or an operand is resharded only for this op. Slicing a replicated value moves no
/// data.
bool Recomputer::moves(Operation *op) const {
  if (!isa<ShardingOpInterface>(op) || isReplicated(op, mesh))
    return false;
  OpSharding runs = computeOpSharding(op, mesh);
  auto differs = [&](ShardingAttr has, ShardingAttr wanted, Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || mesh.isReplicated(has))
      return false;
    return simplify(has, type.getShape(), mesh) !=
           simplify(wanted ? wanted : mesh.getReplicated(type.getRank()), type.getShape(), mesh);
  };
  for (auto [operand, needed] : llvm::zip(op->getOperands(), runs.operands))
    if (!isClonedPerSegment(operand) && differs(getSharding(operand), needed, operand) &&
        !isMovedAgain(operand, needed, getSegment(op)))
      return true;
  for (auto [result, raw] : llvm::zip(op->getResults(), runs.results))
    if (differs(raw, getSharding(result), result))
      return true;
  return false;
}

/// Returns true if the segment's backward needs the same resharding of `value` anyway, such as for
/// the gradient of a weight. Then the clone and the backward op share one resharding.
bool Recomputer::isMovedAgain(Value value, ShardingAttr needed,
                              std::optional<int64_t> segment) const {
  return segment && llvm::any_of(value.getUses(), [&](OpOperand &use) {
           return isUsedAgain(use, *segment) && isa<ShardingOpInterface>(use.getOwner()) &&
                  computeOpSharding(use.getOwner(), mesh).operands[use.getOperandNumber()] ==
                      needed;
         });
}

bool Recomputer::isClonedPerSegment(Value value) const {
  Operation *producer = value.getDefiningOp();
  return producer && cloneable.contains(producer);
}

bool Recomputer::isKept(Value value, int64_t segment) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) { return isUsedAgain(use, segment); });
}

namespace {
class Copier {
public:
  Copier(int64_t number, const ForwardSegment &segment, const Rerun &rerun)
      : number(number), segment(segment), rerun(rerun) {}

  void replace(Value value) {
    auto result = cast<OpResult>(value);
    Value again = copy(result.getOwner())->getResult(result.getResultNumber());
    value.replaceUsesWithIf(again, [&](OpOperand &use) { return isUsedAgain(use, number); });
  }

private:
  /// Clones an op before the segment's backward. First clones the ops of `rerun` that compute its
  /// operands. Returns the clone of the op.
  Operation *copy(Operation *op) {
    if (Operation *known = copies.lookup(op))
      return known;
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && rerun.ops.contains(producer) && !staysKept(operand))
        mapping.map(operand, copy(producer)->getResult(cast<OpResult>(operand).getResultNumber()));
    }
    OpBuilder builder(segment.firstBackward);
    Operation *made = builder.clone(*op, mapping);
    made->setAttr(kPhaseMark, PhaseAttr::get(op->getContext(), Phase::BackwardInput));
    made->setAttr(kRecomputedMark, builder.getUnitAttr());
    copies[op] = made;
    return made;
  }

  /// Returns true if backward uses the value and does not recompute it.
  bool staysKept(Value value) const {
    return !rerun.dropped.contains(value) && Recomputer::isKept(value, number);
  }

  int64_t number;
  const ForwardSegment &segment;
  const Rerun &rerun;
  DenseMap<Operation *, Operation *> copies;
};
} // namespace

void Recomputer::run(int64_t segment, const Rerun &rerun) const {
  Copier copier(segment, segments.at(segment), rerun);
  for (Value value : rerun.dropped)
    copier.replace(value);
}
