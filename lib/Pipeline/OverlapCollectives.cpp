// Implements ps-overlap-collectives: starts the all-gathers of parameters earlier, so that they
// overlap with the preceding run.
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/VerifyCommunication.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::pipeline {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
/// The all-gathers of variables that precede one run, and this run.
struct AllGathers {
  SmallVector<rank::StartOp> starts;
  rank::RunOp user;
};

bool allGathersVariables(rank::StartOp start) {
  return start.getCollective() == "all_gather" &&
         llvm::all_of(start.getOperands(), [](Value operand) {
           auto read = operand.getDefiningOp<ReadOp>();
           return read && read.getVariableAttr();
         });
}

/// Returns the all-gathers of each section, grouped by the run that follows them. The host calls
/// sections separately, so a run uses only all-gathers of its own section.
SmallVector<SmallVector<AllGathers>> findAllGathers(rank::ProgramOp program) {
  SmallVector<SmallVector<AllGathers>> sections(1);
  SmallVector<rank::StartOp> pending;
  for (Operation &op : program.getBody().front()) {
    if (isa<rank::SectionOp>(op))
      sections.emplace_back();
    else if (auto start = dyn_cast<rank::StartOp>(op); start && allGathersVariables(start))
      pending.push_back(start);
    else if (auto run = dyn_cast<rank::RunOp>(op); run && !pending.empty())
      sections.back().push_back({std::exchange(pending, {}), run});
  }
  return sections;
}

/// Returns the earliest point at or after `position` from which `start` can run: no op between the
/// point and `start` writes a variable that `start` reads.
Operation *findInsertionPoint(Operation *position, rank::StartOp start) {
  for (Operation *op = position; op != start; op = op->getNextNode())
    for (Value operand : start.getOperands())
      if (mayWrite(op, operand.getDefiningOp<ReadOp>().getVariableAttr()))
        position = op->getNextNode();
  return position;
}

void startBefore(rank::RunOp before, AllGathers &gathers) {
  Operation *position = before;
  for (rank::StartOp start : gathers.starts) {
    position = findInsertionPoint(position, start); // after the previous start, to keep their order
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
      for (SmallVector<AllGathers> &section : findAllGathers(program))
        for (size_t i = 1; i < section.size(); ++i)
          startBefore(section[i - 1].user, section[i]);
  }
};
} // namespace
} // namespace parashard::pipeline
