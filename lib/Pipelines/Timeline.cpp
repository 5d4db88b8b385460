// A pipeline's step before it runs: in words, and as a picture.
#include "lib/Plan/Timeline.h"
#include "dialects/rank/Rank.h"
#include "lib/Codegen/ClassBuffers.h"
#include "lib/Partition/Stages.h"
#include "lib/Sharding/Explain.h"
#include "lib/Support/Files.h"
#include "parashard/Pipelines.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace parashard {

namespace {
/// What a step is scheduled by: as the module has it, else as the options say.
struct Step {
  Step(ModuleOp module, const CompileOptions &options) : stages(ps::getStages(module)) {
    auto name = module->getAttrOfType<StringAttr>(ps::kScheduleMark);
    auto count = module->getAttrOfType<IntegerAttr>(ps::kMicroBatchesMark);
    microBatches = count ? count.getInt() : options.microBatches;
    schedule = name                       ? name.str()
               : options.schedule.empty() ? plan::chooseSchedule(stages.placement).str()
                                          : options.schedule;
  }

  std::string describe() const {
    return llvm::formatv("{0}, {1} stages on {2} pipeline coordinates, {3} micro-batches", schedule,
                         stages.getCount(), stages.placement.ranks, microBatches);
  }

  ps::Stages stages;
  std::string schedule;
  int64_t microBatches;
};

/// Whether the module has a step at all.
bool hasStep(ModuleOp module) {
  for (auto program : module.getOps<rank::ProgramOp>())
    if (program.getEntry() == "step")
      return true;
  return module.lookupSymbol("micro_batch") || module.lookupSymbol("stage0.micro_batch");
}
} // namespace

/// A step of the plan on a clock that counts each stage's operations: as if all ranks were equally
/// fast, and messages took no time.
static llvm::Expected<plan::Replay> replayStep(ModuleOp module, const Step &step) {
  auto table = plan::findTimetable(step.schedule, step.stages.placement, step.microBatches);
  if (!table)
    return table.takeError();
  plan::PipelineTimes times;
  for (const ps::StageCost &cost : ps::getStageCosts(module))
    times.stages.push_back(
        {cost.forward / 1e9, cost.backwardInput / 1e9, cost.backwardWeight / 1e9});
  return plan::replay(*table, times);
}

std::string explainSchedule(ModuleOp module, const CompileOptions &options) {
  Step step(module, options);
  const ps::Stages &stages = step.stages;
  if (stages.getCount() == 1 || ps::getStageCosts(module).empty() || !hasStep(module))
    return "";
  auto replay = replayStep(module, step);
  if (!replay)
    return "\n" + llvm::toString(replay.takeError()) + "\n";
  std::vector<ps::StageCost> costs = ps::getStageCosts(module);
  std::string text = llvm::formatv("\nschedule: {0}; bubble {1:f1} %, by flops alone\n",
                                   step.describe(), 100 * replay->bubble);
  llvm::raw_string_ostream os(text);
  std::vector<std::vector<std::string>> rows = {
      {"pp", "stages", "micro-batches held at once", "saved of them, at most", "memory of a rank"}};
  for (auto [rank, live] : llvm::enumerate(replay->peakLive)) {
    std::string list;
    int64_t bytes = 0;
    for (int64_t chunk = 0; chunk < stages.placement.chunks; ++chunk) {
      int64_t stage = stages.placement.getStage(rank, chunk);
      list += (chunk ? ", " : "") + std::to_string(stage);
      bytes = std::max(bytes, costs[stage].savedBytes);
    }
    std::optional<int64_t> arena = codegen::getArenaBytes(module, rank);
    rows.push_back({std::to_string(rank), list, std::to_string(live), ps::formatBytes(bytes * live),
                    arena ? ps::formatBytes(*arena) : "-"});
  }
  ps::printTable(rows, os);
  return text;
}

LogicalResult writeTimeline(ModuleOp module, const CompileOptions &options, StringRef path) {
  Step step(module, options);
  const ps::Stages &stages = step.stages;
  if (stages.getCount() == 1 || !hasStep(module))
    return module.emitError() << "has no step of a pipeline to draw";
  auto replay = replayStep(module, step);
  if (!replay)
    return module.emitError() << llvm::toString(replay.takeError());
  std::vector<ps::StageCost> costs = ps::getStageCosts(module);
  plan::TimelineOptions timeline;
  timeline.title = step.describe();
  timeline.unit = "GF";
  for (int64_t rank = 0; rank < stages.placement.ranks; ++rank) {
    std::vector<int64_t> &bytes = timeline.liveBytes.emplace_back();
    for (int64_t chunk = 0; chunk < stages.placement.chunks; ++chunk)
      bytes.push_back(costs[stages.placement.getStage(rank, chunk)].savedBytes);
  }
  llvm::Error error = writeAtomically(
      path, [&](llvm::raw_ostream &os) { plan::writeTimeline(*replay, timeline, os); });
  if (!error)
    return success();
  return module.emitError() << llvm::toString(std::move(error));
}

} // namespace parashard
