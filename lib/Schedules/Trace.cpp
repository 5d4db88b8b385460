// Reads traced instructions. Measures steps and runs, and converts instructions to the tasks of a
// pipeline schedule.
#include "lib/Schedules/Trace.h"
#include "lib/Support/JsonDocument.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>
#include <set>

using namespace llvm;
using namespace parashard::support;

namespace parashard::schedules {
namespace {

double getMedian(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Error fail(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

void addEvent(const JsonValue &event, Trace &trace) {
  std::optional<int64_t> number = event.getInteger("pid");
  if (!number)
    return;
  TracedRank &rank = trace.ranks[*number];
  JsonValue arguments = event.getObject("args").value_or(JsonValue());
  if (std::optional<int64_t> coordinate = arguments.getInteger("pp"))
    rank.coordinate = coordinate;
  std::optional<int64_t> step = arguments.getInteger("step");
  if (!step || event.getInteger("tid").value_or(0) != 0)
    return;
  auto getTime = [&](StringRef key) {
    std::optional<JsonValue> value = event.get(key);
    return value ? value->getAsNumber().value_or(0) / 1e3 : 0;
  };
  TracedInstruction read;
  read.step = *step;
  read.stage = arguments.getInteger("stage").value_or(-1);
  read.microBatch =
      std::clamp<int64_t>(arguments.getInteger("micro_batch").value_or(0), 0, kMaxMicroBatches - 1);
  read.phase = arguments.getString("phase").value_or("");
  read.run = arguments.getString("in").value_or("");
  read.isCollective = event.getString("cat") == "collective";
  read.begin = getTime("ts");
  read.end = read.begin + getTime("dur");
  if (read.phase == "evaluate")
    trace.evaluated.insert(*step);
  else
    rank.instructions.push_back(std::move(read));
}

} // namespace

Expected<Trace> Trace::read(StringRef json) {
  Expected<JsonDocument> document = JsonDocument::parse(json);
  if (!document)
    return fail("is not a trace; a program writes a trace with --trace FILE.json (" +
                toString(document.takeError()) + ")");
  std::optional<JsonValue> events = document->getRoot().getArray("traceEvents");
  if (!events)
    return fail("is not a trace: it has no list \"traceEvents\"; a program writes a trace with "
                "--trace FILE.json");
  Trace trace;
  for (const JsonValue &event : events->getElements())
    addEvent(event, trace);
  return trace;
}

int64_t Trace::countMicroBatches() const {
  int64_t count = 1;
  for (auto &[number, rank] : ranks)
    for (const TracedInstruction &instruction : rank.instructions)
      if (!instruction.phase.empty())
        count = std::max(count, instruction.microBatch + 1);
  return count;
}

int64_t Trace::countStages() const {
  std::set<int64_t> stages;
  for (auto &[number, rank] : ranks)
    for (const TracedInstruction &instruction : rank.instructions)
      if (instruction.stage >= 0)
        stages.insert(instruction.stage);
  return std::max<int64_t>(1, int64_t(stages.size()));
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

namespace {

/// One step of one rank.
struct RankStep {
  int64_t inFunctions = 0; ///< number of instructions of class functions
  bool hasUpdate = false;
  double begin = std::numeric_limits<double>::infinity(), end = 0;
};

std::map<int64_t, RankStep> listSteps(const TracedRank &rank) {
  std::map<int64_t, RankStep> steps;
  for (const TracedInstruction &instruction : rank.instructions) {
    RankStep &step = steps[instruction.step];
    step.inFunctions += !instruction.phase.empty();
    step.hasUpdate |= instruction.phase == "update";
    step.begin = std::min(step.begin, instruction.begin);
    step.end = std::max(step.end, instruction.end);
  }
  return steps;
}

} // namespace

double MeasuredSteps::getQuantile(double share) const {
  std::vector<double> sorted;
  sorted.reserve(seconds.size());
  for (auto &[number, time] : seconds)
    sorted.push_back(time);
  std::sort(sorted.begin(), sorted.end());
  double at = share * double(sorted.size() - 1);
  size_t below = size_t(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - double(below)) * (sorted[above] - sorted[below]);
}

Expected<MeasuredSteps> measureSteps(const Trace &trace) {
  std::vector<std::map<int64_t, RankStep>> ranks;
  std::map<int64_t, double> seconds;
  std::set<int64_t> broken, updated;
  for (auto &[number, rank] : trace.ranks)
    for (auto &[step, times] : ranks.emplace_back(listSteps(rank))) {
      seconds[step] = std::max(seconds[step], (times.end - times.begin) / 1e3);
      if (times.hasUpdate)
        updated.insert(step);
    }
  for (const std::map<int64_t, RankStep> &steps : ranks) {
    int64_t most = 0;
    for (auto &[step, times] : steps)
      most = std::max(most, times.inFunctions);
    for (auto &[step, time] : seconds)
      if (auto found = steps.find(step); found == steps.end() || found->second.inFunctions < most)
        broken.insert(step);
  }
  if (seconds.empty())
    return fail("the trace has no training step; run the program with --steps 5");
  MeasuredSteps result;
  for (auto &[step, time] : seconds)
    if (!broken.contains(step) && updated.contains(step) && !trace.evaluated.contains(step))
      result.seconds[step] = time;
  if (result.seconds.empty())
    return fail("the trace has no complete step without an evaluation; trace fewer steps, such as "
                "--steps 5, without --eval-data");
  result.isWarmUp = result.seconds.size() == 1;
  if (!result.isWarmUp)
    result.seconds.erase(result.seconds.begin());
  return result;
}

StringMap<double> measureRuns(const Trace &trace, const MeasuredSteps &steps) {
  StringMap<double> slowest;
  for (auto &[number, rank] : trace.ranks) {
    StringMap<std::vector<double>> durations;
    ArrayRef<TracedInstruction> rest = rank.instructions;
    while (!rest.empty()) {
      const TracedInstruction &first = rest.front();
      ArrayRef<TracedInstruction> run = rest.take_while([&](const TracedInstruction &next) {
        return std::tie(next.step, next.run, next.microBatch) ==
               std::tie(first.step, first.run, first.microBatch);
      });
      rest = rest.drop_front(run.size());
      if (first.phase.empty() || !steps.seconds.contains(first.step))
        continue;
      double computes = run.back().end - first.begin;
      for (const TracedInstruction &instruction : run)
        computes -= instruction.isCollective ? instruction.getDuration() : 0;
      durations[first.run].push_back(computes / 1e3);
    }
    for (auto &each : durations) {
      double &longest = slowest[each.getKey()];
      longest = std::max(longest, getMedian(each.getValue()));
    }
  }
  return slowest;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

namespace {

class PipelineReader {
public:
  Expected<MeasuredPipeline> read(const Trace &trace) {
    for (auto &[number, rank] : trace.ranks) {
      // Ranks of one pipeline coordinate run the same tasks. The first rank represents all of them.
      if (!rank.coordinate || !coordinates.insert(*rank.coordinate).second)
        continue;
      events[*rank.coordinate] = rank.instructions;
    }
    result.microBatches = trace.countMicroBatches();
    if (Error error = findPlacement())
      return std::move(error);
    for (auto &[coordinate, events] : events)
      for (const TracedInstruction &event : events)
        if (!event.phase.empty())
          steps.insert(event.step);
    for (int64_t step : steps)
      addStep(step);
    for (int64_t stage = 0; stage < result.placement.getNumStages(); ++stage)
      result.stages.push_back({measure(stage, "forward"), measure(stage, "backward_input"),
                               measure(stage, "backward_weight")});
    std::vector<double> updates;
    for (const MeasuredStep &step : result.steps)
      if (counts(step.number))
        updates.push_back(step.update);
    result.update = getMedian(updates);
    return std::move(result);
  }

private:
  /// Returns false for the first of several steps, because the first step includes warm-up.
  bool counts(int64_t step) const { return steps.size() == 1 || step != *steps.begin(); }

  Error findPlacement() {
    std::map<int64_t, int64_t> ranks; // by stage
    for (auto &[coordinate, events] : events)
      for (const TracedInstruction &event : events) {
        if (event.stage >= 0)
          ranks[event.stage] = coordinate;
        if (event.phase == "backward_weight")
          splitStages.insert(event.stage);
      }
    if (ranks.size() < 2)
      return fail(
          "the trace is not of a pipeline; trace a program whose mesh has a pipeline axis, such "
          "as pp=2");
    Placement &placement = result.placement;
    placement.ranks = int64_t(coordinates.size());
    placement.chunks = int64_t(ranks.size()) / std::max<int64_t>(1, placement.ranks);
    bool turns = placement.chunks > 1 && ranks.contains(placement.ranks) &&
                 ranks[placement.ranks] == placement.ranks - 1;
    placement.kind = turns ? PlacementKind::V : PlacementKind::Loop;
    for (auto [stage, rank] : ranks)
      if (stage >= placement.getNumStages() || placement.getRank(stage) != rank)
        return fail("stage " + Twine(stage) + " is on pipeline coordinate " + Twine(rank) +
                    ", which fits neither placement (loop or v): the trace has lost events; trace "
                    "fewer steps");
    return Error::success();
  }

  void addStep(int64_t number) {
    MeasuredStep step;
    step.number = number;
    double first = std::numeric_limits<double>::infinity();
    for (int64_t rank = 0; rank < result.placement.ranks; ++rank) {
      std::vector<Span> &row = step.run.rows.emplace_back();
      double update = 0;
      const TracedInstruction *last = nullptr;
      for (const TracedInstruction &event : events[rank]) {
        if (event.step != number)
          continue;
        if (event.stage < 0 || event.phase == "update") {
          update += event.phase == "update" ? event.end - event.begin : 0;
          continue;
        }
        addToRow(row, event, last);
        last = &event;
        first = std::min(first, event.begin);
        durations[{event.stage, event.phase}][{number, event.microBatch}] +=
            event.end - event.begin;
      }
      step.update = std::max(step.update, update);
    }
    for (std::vector<Span> &row : step.run.rows)
      for (Span &span : row)
        span.begin -= first, span.end -= first;
    measureReplay(step.run);
    result.steps.push_back(std::move(step));
  }

  /// Appends a task for `event`. Extends the last task instead if `event` and the previous event
  /// (`last`, may be null) are both forward, or both backward, of the same stage and micro-batch.
  void addToRow(std::vector<Span> &row, const TracedInstruction &event,
                const TracedInstruction *last) {
    Work work = event.phase == "forward"           ? Work::Forward
                : event.phase == "backward_weight" ? Work::BackwardWeight
                : splitStages.contains(event.stage)
                    ? Work::BackwardInput
                    : Work::Backward; // no separate weight gradients
    bool continues = last && last->stage == event.stage && last->microBatch == event.microBatch &&
                     (last->phase == "forward") == (work == Work::Forward);
    if (!continues) {
      row.push_back({{work, result.placement.getChunk(event.stage), event.microBatch},
                     event.begin,
                     event.end});
      return;
    }
    Span &span = row.back();
    span.end = event.end;
    if (span.task.work != work)
      span.task.work = Work::Backward;
  }

  double measure(int64_t stage, StringRef phase) {
    std::vector<double> values;
    for (auto &[where, duration] : durations[{stage, phase.str()}])
      if (counts(where.first))
        values.push_back(duration);
    return getMedian(values);
  }

  MeasuredPipeline result;
  std::set<int64_t> coordinates;
  std::map<int64_t, ArrayRef<TracedInstruction>> events; ///< by coordinate, in order
  std::set<int64_t> steps;
  std::set<int64_t> splitStages; ///< stages with separate weight gradients
  /// Time by (stage, phase), then by (step, micro-batch).
  std::map<std::pair<int64_t, std::string>, std::map<std::pair<int64_t, int64_t>, double>>
      durations;
};

} // namespace

const MeasuredStep &MeasuredPipeline::getTypicalStep() const {
  std::vector<const MeasuredStep *> sorted;
  for (const MeasuredStep &step : ArrayRef(steps).drop_front(steps.size() > 1))
    sorted.push_back(&step);
  llvm::sort(sorted, [](const MeasuredStep *a, const MeasuredStep *b) {
    return a->run.makespan < b->run.makespan;
  });
  return *sorted[sorted.size() / 2];
}

Expected<MeasuredPipeline> measurePipeline(const Trace &trace) {
  return PipelineReader().read(trace);
}

Expected<MeasuredPipeline> readTrace(StringRef json) {
  Expected<Trace> trace = Trace::read(json);
  if (!trace)
    return trace.takeError();
  return measurePipeline(*trace);
}

bool isSameOrder(ArrayRef<std::vector<Task>> a, ArrayRef<std::vector<Task>> b) {
  auto getOrder = [](ArrayRef<Task> row) {
    std::vector<std::tuple<bool, int64_t, int64_t>> order;
    for (const Task &task : row)
      if (task.work != Work::BackwardWeight)
        order.emplace_back(task.work == Work::Forward, task.chunk, task.microBatch);
    return order;
  };
  return llvm::equal(
      a, b, [&](const auto &rowA, const auto &rowB) { return getOrder(rowA) == getOrder(rowB); });
}

} // namespace parashard::schedules
