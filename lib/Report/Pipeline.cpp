// Gathers the data of a pipeline: its stages and coordinates, the planned step, and the measured
// step.
#include "Gather.h"
#include "lib/Fusion/ClassBuffers.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace parashard::driver;
namespace json = llvm::json;

namespace parashard::report {

static std::string draw(const schedules::Replay &run, const schedules::TimelineOptions &options) {
  std::string picture;
  llvm::raw_string_ostream os(picture);
  schedules::writeTimeline(run, options, os);
  return picture;
}

/// Describes a step: its duration, its bubble, the maximum number of live micro-batches per
/// coordinate, and a picture of the timeline.
static json::Object describeRun(const schedules::Replay &run,
                                const schedules::TimelineOptions &options) {
  return json::Object{{"unit", options.unit},
                      {"makespan", run.makespan},
                      {"bubble", run.bubble},
                      {"held", json::Array(run.peakLive)},
                      {"picture", toText(draw(run, options))}};
}

static json::Object describeStage(const PlannedStep &step, int64_t stage) {
  const schedules::Placement &placement = step.stages.placement;
  const ir::StageCost &cost = step.costs[stage];
  return json::Object{{"stage", stage},
                      {"pp", placement.getRank(stage)},
                      {"chunk", placement.getChunk(stage)},
                      {"first_segment", stage ? step.stages.cuts[stage - 1] : 0},
                      {"forward", cost.forward},
                      {"backward_input", cost.backwardInput},
                      {"backward_weight", cost.backwardWeight},
                      {"saved_bytes", cost.savedBytes},
                      {"cut_bytes", cost.cutBytes}};
}

json::Object describePipeline(ModuleOp module, const PlannedStep &step,
                              const schedules::MeasuredPipeline *measured) {
  json::Array stages, coordinates;
  for (int64_t stage = 0; stage < step.stages.getCount(); ++stage)
    stages.push_back(describeStage(step, stage));
  for (int64_t pp = 0; pp < step.stages.placement.ranks; ++pp) {
    json::Object row{{"pp", pp},
                     {"saved_bytes",
                      int64_t(schedules::getPeakHeld(step.run.rows[pp], step.getSavedBytes(pp)))}};
    if (std::optional<int64_t> arena = fusion::getArenaBytes(module, pp))
      row["arena_bytes"] = *arena;
    coordinates.push_back(std::move(row));
  }
  json::Object data{{"schedule", toText(step.schedule)},
                    {"stages", std::move(stages)},
                    {"coordinates", std::move(coordinates)},
                    {"plan", describeRun(step.run, step.getTimeline())}};
  if (!measured)
    return data;
  const schedules::MeasuredStep &typical = measured->getTypicalStep();
  schedules::TimelineOptions timeline = step.getTimeline();
  timeline.title = llvm::formatv("step {0}, measured", typical.number);
  timeline.unit = "ms";
  json::Object run = describeRun(typical.run, timeline);
  run["step"] = typical.number;
  run["steps"] = int64_t(measured->steps.size());
  run["update"] = measured->update;
  json::Array times;
  for (const schedules::StageTimes &of : measured->stages)
    times.push_back(json::Object{{"forward", of.forward},
                                 {"backward_input", of.backwardInput},
                                 {"backward_weight", of.backwardWeight}});
  run["stages"] = std::move(times);
  data["measured"] = std::move(run);
  return data;
}

static llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Expected<schedules::MeasuredPipeline> readMeasured(StringRef path, const PlannedStep &step) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return makeError(buffer.getError().message());
  auto measured = schedules::readTrace((*buffer)->getBuffer());
  if (!measured)
    return measured.takeError();
  auto describe = [](const schedules::Placement &placement, int64_t microBatches) {
    return llvm::formatv("{0} stages on {1} pipeline coordinates{2}, {3} micro-batches per step",
                         placement.getNumStages(), placement.ranks,
                         placement.kind == schedules::PlacementKind::V ? ", V placement" : "",
                         microBatches)
        .str();
  };
  std::string planned = describe(step.stages.placement, step.microBatches);
  std::string ran = describe(measured->placement, measured->microBatches);
  if (planned == ran &&
      !isSameOrder(step.run.listTasks(), measured->getTypicalStep().run.listTasks()))
    return makeError(
        "the trace is of another program: its tasks are not in the order of this schedule, " +
        step.schedule);
  if (planned != ran)
    return makeError("the trace is of another program: " + ran + "; the plan has " + planned);
  return measured;
}

} // namespace parashard::report
