// Implements ps-split-stages: copies cheap values into the stages that use them, and splits @update
// by pipeline coordinate.
#include "lib/IR/Cloneable.h"
#include "lib/Partition/CheapValues.h"
#include "lib/Partition/Passes.h"
#include "lib/Partition/SplitUpdate.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace parashard::ir;

namespace parashard::partition {
#define GEN_PASS_DEF_SPLITSTAGESPASS
#include "lib/Partition/Passes.h.inc"

namespace {
/// Returns true for functions that are split into stages. `@update` has no segments, and every
/// coordinate runs all of `@count`.
bool hasStages(func::FuncOp function) {
  return function.getName() != "update" && function.getName() != "count" && !function.isExternal();
}

/// Copies cheap values into the later stages that use them.
class CheapCloner {
public:
  CheapCloner(func::FuncOp function, const Stages &stages)
      : function(function), stages(stages), cheap(function), cloneable(findCloneableOps(function)) {
  }

  /// Creates the copies, and returns them by stage.
  std::vector<SmallVector<Operation *>> run() {
    copies.resize(stages.getCount());
    values.resize(stages.getCount());
    SmallVector<Operation *> ops;
    for (Operation &op : function.getBody().front().without_terminator())
      ops.push_back(&op);
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (!cloneable.contains(op))
          serveLaterStages(result);
    return std::move(copies);
  }

private:
  void serveLaterStages(Value value) {
    std::optional<int64_t> home = getSegment(value.getDefiningOp());
    if (!home)
      return;
    for (OpOperand &use : llvm::make_early_inc_range(value.getUses())) {
      std::optional<int64_t> segment = getSegment(use.getOwner());
      if (!segment || cloneable.contains(use.getOwner()))
        continue;
      int64_t stage = stages.getStage(*segment);
      if (stage > stages.getStage(*home) && cheap.isCheap(value))
        use.set(getCopy(value, stage));
    }
  }

  Value getCopy(Value value, int64_t stage) {
    IRMapping &known = values[stage];
    if (known.contains(value))
      return known.lookup(value);
    for (Operation *op : cheap.getCone(value)) {
      if (known.contains(op->getResult(0)))
        continue;
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op); // after `op`, and so after the copies of its operands
      Operation *copy = builder.clone(*op, known);
      copy->removeAttr(kOriginMark);
      copies[stage].push_back(copy);
    }
    return known.lookup(value);
  }

  func::FuncOp function;
  const Stages &stages;
  CheapValues cheap;
  DenseSet<Operation *> cloneable;
  std::vector<SmallVector<Operation *>> copies;
  std::vector<IRMapping> values; ///< copies of values, by stage
};

/// Adds a first segment to each stage that has copies in any function. The stage gets this segment
/// in all functions. Example: if only stage 1 has copies, the cuts [4, 8] become [4, 9], and
/// segment 4 holds the copies.
void addFirstSegments(ModuleOp module, MutableArrayRef<func::FuncOp> functions,
                      ArrayRef<std::vector<SmallVector<Operation *>>> copies) {
  Stages stages = getStages(module);
  Builder b(module.getContext());
  SmallVector<int64_t> added(stages.getCount(), 0); ///< number of new segments in stages 0 to i
  for (int64_t stage = 1; stage < stages.getCount(); ++stage)
    added[stage] = added[stage - 1] + llvm::any_of(copies, [&](auto &ofFunction) {
                     return !ofFunction[stage].empty();
                   });
  for (auto [function, ofFunction] : llvm::zip(functions, copies)) {
    for (Operation &op : function.getBody().front())
      if (std::optional<int64_t> segment = getSegment(&op))
        op.setAttr(kSegmentMark, b.getI64IntegerAttr(*segment + added[stages.getStage(*segment)]));
    for (int64_t stage = 1; stage < stages.getCount(); ++stage)
      for (Operation *copy : ofFunction[stage])
        copy->setAttr(kSegmentMark, b.getI64IntegerAttr(stages.cuts[stage - 1] + added[stage - 1]));
  }
  for (int64_t stage = 1; stage < stages.getCount(); ++stage)
    stages.cuts[stage - 1] += added[stage - 1];
  setStages(module, stages);
}

struct SplitStagesPass : impl::SplitStagesPassBase<SplitStagesPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(verifyStageMarks(module, "partitioned_c11")))
      return signalPassFailure();
    Stages stages = getStages(module);
    if (stages.getCount() == 1)
      return;
    SmallVector<func::FuncOp> functions;
    std::vector<std::vector<SmallVector<Operation *>>> copies;
    for (auto function : module.getOps<func::FuncOp>())
      if (hasStages(function)) {
        functions.push_back(function);
        copies.push_back(CheapCloner(function, stages).run());
      }
    addFirstSegments(module, functions, copies);
    StageVariables variables(module, functions);
    if (failed(variables.verifyState()))
      return signalPassFailure();
    variables.separateAccumulators();
    if (failed(splitUpdate(module, variables)))
      return signalPassFailure();
  }
};
} // namespace
} // namespace parashard::partition
