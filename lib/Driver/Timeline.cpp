// Explains and draws the planned pipeline schedule of a step.
#include "dialects/rank/Rank.h"
#include "lib/Driver/PlannedStep.h"
#include "lib/Fusion/ClassBuffers.h"
#include "lib/Sharding/Explain.h"
#include "lib/Support/Files.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::sharding;
using namespace parashard::support;

namespace parashard::driver {

/// Returns true if the module contains a training step.
static bool hasStep(ModuleOp module) {
  for (auto program : module.getOps<rank::ProgramOp>())
    if (program.getEntry() == "step")
      return true;
  return module.lookupSymbol("micro_batch") || module.lookupSymbol("stage0.micro_batch");
}

llvm::Expected<std::optional<PlannedStep>> planStep(ModuleOp module,
                                                    const CompileOptions &options) {
  PlannedStep step{
      ir::getStages(module), options.schedule, options.microBatches, ir::getStageCosts(module), {}};
  if (step.stages.getCount() == 1 || step.costs.empty() || !hasStep(module))
    return std::nullopt;
  if (auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesMark))
    step.microBatches = count.getInt();
  if (auto name = module->getAttrOfType<StringAttr>(kScheduleMark))
    step.schedule = name.str();
  if (step.schedule.empty())
    step.schedule = schedules::chooseSchedule(step.stages.placement);
  auto table =
      schedules::findPipelineSchedule(step.schedule, step.stages.placement, step.microBatches);
  if (!table)
    return table.takeError();
  schedules::PipelineTimes times;
  for (const ir::StageCost &cost : step.costs)
    times.stages.push_back(
        {cost.forward / 1e9, cost.backwardInput / 1e9, cost.backwardWeight / 1e9});
  auto run = schedules::replay(*table, times);
  if (!run)
    return run.takeError();
  step.run = std::move(*run);
  return step;
}

std::string PlannedStep::describe() const {
  return llvm::formatv("{0}, {1} stages on {2} pipeline coordinates, {3} micro-batches", schedule,
                       stages.getCount(), stages.placement.ranks, microBatches);
}

std::vector<int64_t> PlannedStep::getSavedBytes(int64_t coordinate) const {
  std::vector<int64_t> bytes;
  for (int64_t chunk = 0; chunk < stages.placement.chunks; ++chunk)
    bytes.push_back(costs[stages.placement.getStage(coordinate, chunk)].savedBytes);
  return bytes;
}

schedules::TimelineOptions PlannedStep::getTimeline() const {
  schedules::TimelineOptions timeline{describe(), "GF", {}};
  for (int64_t coordinate = 0; coordinate < stages.placement.ranks; ++coordinate)
    timeline.liveBytes.push_back(getSavedBytes(coordinate));
  return timeline;
}

/// Prints the reductions over pipeline coordinates that each step runs once: gradients of tied
/// parameters, losses, norms. Reads them from the `rank.start` ops of programs. Prints
/// nothing before level `scheduled`, which creates the programs.
static void explainPipelineReductions(ModuleOp module, llvm::raw_ostream &os) {
  std::vector<std::vector<std::string>> rows = {{"bytes", "value", "pipeline coordinates"}};
  SmallVector<StringRef> known;
  module.walk([&](rank::StartOp start) {
    auto name = start->getAttrOfType<StringAttr>(kReducedMark);
    auto program = start->getParentOfType<rank::ProgramOp>();
    if (!name || program.getEntry() != "step" || llvm::is_contained(known, name.getValue()))
      return;
    known.push_back(name.getValue());
    std::string members;
    for (int64_t pp : start.getOverPp().value_or(llvm::ArrayRef<int64_t>()))
      members += (members.empty() ? "" : ", ") + std::to_string(pp);
    int64_t bytes = 0;
    for (Type type : start->getOperandTypes())
      bytes += ps::getByteSize(type);
    rows.push_back({sharding::formatBytes(bytes), name.str(), members});
  });
  if (rows.size() == 1)
    return;
  os << "\nreduced over pipeline coordinates, once per step\n";
  sharding::printTable(rows, os);
}

std::string explainSchedule(ModuleOp module, const CompileOptions &options) {
  auto step = planStep(module, options);
  if (!step)
    return "\n" + llvm::toString(step.takeError()) + "\n";
  if (!*step)
    return "";
  const schedules::Placement &placement = (*step)->stages.placement;
  const schedules::Replay &run = (*step)->run;
  std::string text = llvm::formatv("\nschedule: {0}; bubble {1:f1} % (estimated from "
                                   "flops, without communication)\n",
                                   (*step)->describe(), 100 * run.bubble);
  llvm::raw_string_ostream os(text);
  std::vector<std::vector<std::string>> rows = {
      {"pp", "stages", "micro-batches held", "peak saved activations", "memory per rank"}};
  for (int64_t pp = 0; pp < placement.ranks; ++pp) {
    std::string list;
    for (int64_t chunk = 0; chunk < placement.chunks; ++chunk)
      list += (chunk ? ", " : "") + std::to_string(placement.getStage(pp, chunk));
    double saved = schedules::getPeakHeld(run.rows[pp], (*step)->getSavedBytes(pp));
    std::optional<int64_t> arena = fusion::getArenaBytes(module, pp);
    rows.push_back({std::to_string(pp), list, std::to_string(run.peakLive[pp]),
                    sharding::formatBytes(int64_t(saved)),
                    arena ? sharding::formatBytes(*arena) : "-"});
  }
  sharding::printTable(rows, os);
  explainPipelineReductions(module, os);
  return text;
}

LogicalResult writeTimeline(ModuleOp module, const CompileOptions &options, StringRef path) {
  auto step = planStep(module, options);
  if (!step)
    return module.emitError() << llvm::toString(step.takeError());
  if (!*step)
    return module.emitError()
           << "the program has no training step with a pipeline, so --write-timeline has nothing "
              "to draw; use a mesh with a pipeline axis, such as pp=2, without --inference";
  llvm::Error error = writeAtomically(path, [&](llvm::raw_ostream &os) {
    schedules::writeTimeline((*step)->run, (*step)->getTimeline(), os);
  });
  if (!error)
    return success();
  return module.emitError() << llvm::toString(std::move(error));
}

} // namespace parashard::driver
