// Implements ps-overlap-collectives: gathers parameters while the preceding run computes.
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/VerifyCommunication.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
/// The gathers of variables before one run, and the run that uses them.
struct Gathers {
  SmallVector<rank::StartOp> starts;
  rank::RunOp user;
};

bool gathersVariables(rank::StartOp start) {
  return start.getCollective() == "all_gather" &&
         llvm::all_of(start.getOperands(), [](Value operand) {
           auto read = operand.getDefiningOp<ReadOp>();
           return read && read.getVariableAttr();
         });
}

/// Returns the gathers of each section, grouped by the run that follows them. The host calls
/// sections separately, so a gather never serves a run of another section.
SmallVector<SmallVector<Gathers>> findGathers(rank::ProgramOp program) {
  SmallVector<SmallVector<Gathers>> sections(1);
  SmallVector<rank::StartOp> pending;
  for (Operation &op : program.getBody().front()) {
    if (isa<rank::SectionOp>(op))
      sections.emplace_back();
    else if (auto start = dyn_cast<rank::StartOp>(op); start && gathersVariables(start))
      pending.push_back(start);
    else if (auto run = dyn_cast<rank::RunOp>(op); run && !pending.empty())
      sections.back().push_back({std::exchange(pending, {}), run});
  }
  return sections;
}

/// Returns the first insertion point from `position` up to `start` after which no op writes a
/// variable that `start` reads.
Operation *findInsertionPoint(Operation *position, rank::StartOp start) {
  for (Operation *op = position; op != start; op = op->getNextNode())
    for (Value operand : start.getOperands())
      if (mayWrite(op, operand.getDefiningOp<ReadOp>().getVariableAttr()))
        position = op->getNextNode();
  return position;
}

/// Moves the gathers of a run before the run `before`.
void startBefore(rank::RunOp before, Gathers &gathers) {
  Operation *position = before;
  for (rank::StartOp start : gathers.starts) {
    position = findInsertionPoint(position, start); // keeps the order of the queue
    llvm::SmallPtrSet<Operation *, 32> between;     // isBeforeInBlock would renumber the block
    for (Operation *op = position; op != start; op = op->getNextNode())
      between.insert(op);
    for (Value operand : start.getOperands()) {
      Operation *read = operand.getDefiningOp();
      if (position == read)
        position = position->getNextNode();
      else if (between.contains(read))
        read->moveBefore(position);
    }
    if (start != position)
      start->moveBefore(position);
    position = start->getNextNode();
  }
}

struct OverlapCollectivesPass : impl::OverlapCollectivesPassBase<OverlapCollectivesPass> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<rank::ProgramOp>())
      for (SmallVector<Gathers> &section : findGathers(program))
        for (size_t i = 1; i < section.size(); ++i)
          startBefore(section[i - 1].user, section[i]);
  }
};
} // namespace
} // namespace parashard::pipeline
