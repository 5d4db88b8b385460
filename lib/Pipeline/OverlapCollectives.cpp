// The pass ps-overlap-collectives: parameters are gathered while what stands before runs.
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/VerifyCommunication.h"

using namespace mlir;

namespace parashard::ps {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {
/// Gathers of variables in front of one run, and the run that they are for.
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

/// By the runs that follow them; a section is called apart, so none is for a run of another one.
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

/// The first place from `place` on, at most `start`, behind which nothing writes what is read.
Operation *findPlace(Operation *place, rank::StartOp start) {
  for (Operation *op = place; op != start; op = op->getNextNode())
    for (Value operand : start.getOperands())
      if (mayWrite(op, operand.getDefiningOp<ReadOp>().getVariableAttr()))
        place = op->getNextNode();
  return place;
}

/// Starts what a run needs in front of the run `before`.
void startBefore(rank::RunOp before, Gathers &gathers) {
  Operation *place = before;
  for (rank::StartOp start : gathers.starts) {
    place = findPlace(place, start);           // no start overtakes one of its queue
    llvm::SmallPtrSet<Operation *, 32> behind; // asking the block for the order numbers it anew
    for (Operation *op = place; op != start; op = op->getNextNode())
      behind.insert(op);
    for (Value operand : start.getOperands()) {
      Operation *read = operand.getDefiningOp();
      if (place == read)
        place = place->getNextNode();
      else if (behind.contains(read))
        read->moveBefore(place);
    }
    if (start != place)
      start->moveBefore(place);
    place = start->getNextNode();
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
} // namespace parashard::ps
