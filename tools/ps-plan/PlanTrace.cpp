// Reads the trace of a plan's program, and checks that the trace matches the plan.
#include "PlanTrace.h"
#include "lib/Sharding/MeshText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace parashard::schedules;

namespace parashard {

llvm::Expected<PlanShape> makeShape(llvm::StringRef mesh, int64_t ranks, int64_t chunks,
                                    llvm::StringRef schedule, int64_t microBatches) {
  if (microBatches > kMaxMicroBatches)
    return llvm::createStringError(llvm::formatv("{0} micro-batches per step; a step has at most "
                                                 "{1}",
                                                 microBatches, kMaxMicroBatches)
                                       .str());
  PlanShape shape{1, {}, microBatches, schedule.str()};
  shape.placement.chunks = chunks;
  llvm::Expected<PlacementKind> kind = findPlacement(schedule);
  if (!kind)
    return kind.takeError();
  shape.placement.kind = *kind;
  if (mesh.empty())
    return shape;
  auto axes = sharding::parseMesh(mesh, ranks);
  if (!axes)
    return axes.takeError();
  for (const sharding::MeshAxis &axis : *axes) {
    shape.ranks *= axis.size;
    // The ranks of a placement are pipeline coordinates.
    shape.placement.ranks *= axis.kind == ps::AxisKind::Pipeline ? axis.size : 1;
  }
  return shape;
}

namespace {

llvm::Error failMismatch(const llvm::Twine &difference) {
  return llvm::createStringError("the trace is not of this plan; " + difference +
                                 "; compile this plan, and trace its program");
}

bool hasWeightTasks(const Replay &run) {
  return llvm::any_of(run.rows, [](const auto &row) {
    return llvm::any_of(row,
                        [](const Span &span) { return span.task.work == Work::BackwardWeight; });
  });
}

/// Returns true if the tasks of a traced step are in the order of a schedule.
bool isOfSchedule(const Replay &run, const PipelineSchedule &table) {
  return isSameOrder(run.listTasks(), table.rows) &&
         (table.splitsBackward() || !hasWeightTasks(run));
}

/// Returns the name of the first built-in schedule whose order matches a traced step, for errors.
std::string findSchedule(const Replay &run, const Placement &placement, int64_t microBatches) {
  for (const Schedule &known : getSchedules()) {
    auto table =
        makePipelineSchedule(known.name, {placement.ranks, placement.chunks, microBatches});
    if (!table)
      llvm::consumeError(table.takeError());
    else if (known.placement == placement.kind && isOfSchedule(run, *table))
      return known.name;
  }
  return "another order of tasks";
}

/// Fails if the pipeline in a trace has another schedule than the plan, or another assignment of
/// stages to pipeline coordinates. The caller has checked that the numbers of stages and
/// micro-batches are equal.
llvm::Error checkPipeline(const Trace &trace, const MeasuredSteps &steps, const PlanShape &shape) {
  llvm::Expected<MeasuredPipeline> pipeline = measurePipeline(trace);
  if (!pipeline)
    return pipeline.takeError();
  llvm::Expected<PipelineSchedule> planned =
      findPipelineSchedule(shape.schedule, shape.placement, shape.microBatches);
  if (!planned)
    return llvm::createStringError("the plan has no valid schedule: " +
                                   llvm::toString(planned.takeError()));
  auto step = llvm::find_if(
      pipeline->steps, [&](const MeasuredStep &each) { return steps.seconds.count(each.number); });
  if (pipeline->placement.kind == shape.placement.kind && isOfSchedule(step->run, *planned))
    return llvm::Error::success();
  return failMismatch(
      "schedule: " + findSchedule(step->run, pipeline->placement, shape.microBatches) +
      " in the trace, " + planned->name + " in the plan");
}

/// Fails if a program with this plan cannot have written the trace.
llvm::Error checkTrace(const Trace &trace, const MeasuredSteps &steps, const PlanShape &shape) {
  int64_t stages = shape.placement.getNumStages();
  for (auto [name, traced, planned] :
       {std::tuple("ranks", int64_t(trace.ranks.size()), shape.ranks),
        std::tuple("pipeline stages", trace.countStages(), stages),
        std::tuple("micro-batches per step", trace.countMicroBatches(), shape.microBatches)})
    if (traced != planned)
      return failMismatch(
          llvm::formatv("{0}: {1} in the trace, {2} in the plan", name, traced, planned).str());
  return stages > 1 ? checkPipeline(trace, steps, shape) : llvm::Error::success();
}

} // namespace

llvm::Expected<MeasuredTrace> readTraceOf(const PlanShape &shape, const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return llvm::createStringError("cannot be read: " + buffer.getError().message());
  llvm::Expected<Trace> trace = Trace::read((*buffer)->getBuffer());
  if (!trace)
    return trace.takeError();
  llvm::Expected<MeasuredSteps> steps = measureSteps(*trace);
  if (!steps)
    return steps.takeError();
  if (llvm::Error error = checkTrace(*trace, *steps, shape))
    return std::move(error);
  return MeasuredTrace{std::move(*trace), std::move(*steps)};
}

} // namespace parashard
