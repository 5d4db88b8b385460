// Converts the traced instructions of a program to the tasks of a pipeline schedule.
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

/// One traced instruction.
struct Event {
  int64_t step, stage, microBatch;
  std::string phase;
  double begin, end; // ms
};

double getMedian(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Error fail(const Twine &message) { return createStringError(inconvertibleErrorCode(), message); }

class TraceReader {
public:
  Expected<MeasuredPipeline> read(const JsonValue &root) {
    for (const JsonValue &event : root.getArray("traceEvents").value_or(JsonValue()).getElements())
      addEvent(event);
    if (Error error = findPlacement())
      return std::move(error);
    for (auto &[coordinate, events] : events)
      for (const Event &event : events)
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
  /// Returns false for the first of several steps, which includes warm-up.
  bool counts(int64_t step) const { return steps.size() == 1 || step != *steps.begin(); }

  void addEvent(const JsonValue &event) {
    JsonValue arguments = event.getObject("args").value_or(JsonValue());
    std::optional<int64_t> rank = event.getInteger("pid");
    if (!rank)
      return;
    if (std::optional<int64_t> coordinate = arguments.getInteger("pp")) {
      // Ranks of one pipeline coordinate run the same tasks. The first rank represents all of them.
      auto [known, isNew] = representative.try_emplace(*coordinate, *rank);
      if (isNew || known->second == *rank)
        coordinates[*rank] = *coordinate;
    }
    auto coordinate = coordinates.find(*rank);
    std::optional<std::string> phase = arguments.getString("phase");
    if (coordinate == coordinates.end() || !phase)
      return;
    auto getTime = [&](StringRef key) {
      std::optional<JsonValue> value = event.get(key);
      return value ? value->getAsNumber().value_or(0) / 1e3 : 0;
    };
    double begin = getTime("ts");
    events[coordinate->second].push_back(
        {arguments.getInteger("step").value_or(0), arguments.getInteger("stage").value_or(-1),
         arguments.getInteger("micro_batch").value_or(0), *phase, begin, begin + getTime("dur")});
  }

  Error findPlacement() {
    std::map<int64_t, int64_t> ranks; // by stage
    for (auto &[coordinate, events] : events)
      for (const Event &event : events) {
        if (event.stage >= 0)
          ranks[event.stage] = coordinate;
        if (event.phase == "backward_weight")
          splitStages.insert(event.stage);
        result.microBatches = std::max(result.microBatches, event.microBatch + 1);
      }
    if (ranks.size() < 2)
      return fail("the trace is not of a pipeline");
    Placement &placement = result.placement;
    placement.ranks = int64_t(representative.size());
    placement.chunks = int64_t(ranks.size()) / std::max<int64_t>(1, placement.ranks);
    bool turns = placement.chunks > 1 && ranks.count(placement.ranks) &&
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
      const Event *last = nullptr;
      for (const Event &event : events[rank]) {
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

  /// Appends a task for `event`. Extends the last task instead if `event` and the event before
  /// (`last`, may be null) are both forward or both backward of the same stage and micro-batch.
  void addToRow(std::vector<Span> &row, const Event &event, const Event *last) {
    Work work = event.phase == "forward"           ? Work::Forward
                : event.phase == "backward_weight" ? Work::BackwardWeight
                : splitStages.count(event.stage)   ? Work::BackwardInput
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
  std::map<int64_t, int64_t> representative;    ///< one rank, by coordinate
  std::map<int64_t, int64_t> coordinates;       ///< by representative rank
  std::map<int64_t, std::vector<Event>> events; ///< by coordinate, in order
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

Expected<MeasuredPipeline> readTrace(StringRef json) {
  Expected<JsonDocument> document = JsonDocument::parse(json);
  if (!document)
    return document.takeError();
  return TraceReader().read(document->getRoot());
}

} // namespace parashard::schedules
