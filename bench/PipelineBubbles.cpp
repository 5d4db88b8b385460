// Compares the simulator's pipeline bubbles with published figures.
#include "test/Schedules/PublishedBubbles.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace parashard::schedules;

/// Returns the simulated bubble: the idle fraction of a step, over all ranks.
static double simulate(const char *schedule, const Published &row) {
  PipelineSchedule table =
      llvm::cantFail(makePipelineSchedule(schedule, {row.ranks, 1, row.microBatches}));
  StageTimes times{row.forward, row.backwardInput, row.backwardWeight};
  std::vector<StageTimes> stages(row.ranks, times);
  return llvm::cantFail(replay(table, {stages, row.hop})).bubble;
}

int main() {
  int wrong = 0;
  llvm::outs()
      << "arXiv 2401.10241, Table 5\nmodel  ranks  micro-batches  schedule  published  simulated\n";
  for (const Published &row : kPublished)
    for (auto [schedule, published] :
         {std::pair("1f1b", row.bubble1F1B), std::pair("zb-h1", row.bubbleH1)}) {
      double bubble = simulate(schedule, row);
      bool isEqual = std::abs(bubble - published) <= 5e-5; // equal to the published four decimals
      wrong += !isEqual;
      llvm::outs() << llvm::formatv("{0,-6} {1,5}  {2,13}  {3,-8}  {4,9:f4}  {5,9:f4}{6}\n",
                                    row.model, row.ranks, row.microBatches, schedule, published,
                                    bubble, isEqual ? "" : "  differs");
    }
  return wrong ? 1 : 0;
}
