// Simulates a schedule: runs the next task of each rank until no task can run.
#include "lib/Schedules/Simulator.h"
#include "shared/Counts.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <optional>

using namespace llvm;

namespace parashard::schedules {
namespace {

class Simulator {
public:
  Simulator(const PipelineSchedule &table, const PipelineTimes &times)
      : table(table), times(times) {
    size_t tasks = table.placement.getNumStages() * table.microBatches;
    forwardEnds.assign(tasks, std::nullopt);
    backwardEnds.assign(tasks, std::nullopt);
    result.rows.resize(table.rows.size());
  }

  Expected<Replay> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int64_t rank = 0; rank < table.placement.ranks; ++rank)
        while (runNext(rank))
          moved = true;
    }
    for (auto [row, spans] : zip(table.rows, result.rows))
      if (spans.size() < row.size())
        return describeDeadlock();
    measureReplay(result);
    return std::move(result);
  }

private:
  using Ends = std::vector<std::optional<double>>; ///< by stage and micro-batch

  size_t getIndex(int64_t stage, int64_t microBatch) const {
    return stage * table.microBatches + microBatch;
  }
  /// Returns the time at which the result of stage `from` for micro-batch `m` arrives at stage
  /// `to`, or nullopt if the result is not computed yet.
  std::optional<double> getArrival(const Ends &ends, int64_t from, int64_t to, int64_t m) const {
    std::optional<double> end = ends[getIndex(from, m)];
    bool travels = table.placement.getRank(from) != table.placement.getRank(to);
    return end && travels ? *end + times.hop : end;
  }
  /// Returns the stage whose result `task` waits for, and the list with the end time of this result
  /// (`forwardEnds` or `backwardEnds`). The stage is -1 if the task does not wait for another
  /// stage.
  std::pair<const Ends *, int64_t> getNeed(int64_t stage, const Task &task) const {
    if (task.work == Work::Forward)
      return {&forwardEnds, stage - 1};
    bool isWeight = task.work == Work::BackwardWeight,
         isLast = stage + 1 == table.placement.getNumStages();
    return {&backwardEnds, isWeight || isLast ? -1 : stage + 1};
  }
  double getDuration(int64_t stage, Work work) const {
    const StageTimes &time = times.stages[stage];
    switch (work) {
    case Work::Forward:
      return time.forward;
    case Work::Backward:
      return time.backwardInput + time.backwardWeight;
    case Work::BackwardInput:
      return time.backwardInput;
    case Work::BackwardWeight:
      return time.backwardWeight;
    }
    return 0;
  }

  /// Returns the time at which a rank can begin its next task: after its previous task, and after
  /// it has sent the result of that task, if another rank needs the result.
  double getReadyTime(int64_t rank) const {
    if (result.rows[rank].empty())
      return 0;
    const Span &last = result.rows[rank].back();
    int64_t to = table.placement.getStage(rank, last.task.chunk);
    to += last.task.work == Work::Forward ? 1 : last.task.work == Work::BackwardWeight ? 0 : -1;
    bool isSent =
        0 <= to && to < table.placement.getNumStages() && table.placement.getRank(to) != rank;
    return isSent ? last.end + times.send : last.end;
  }

  /// Runs the next task of a rank. Returns false if no task is left, or if the input of the next
  /// task has not arrived.
  bool runNext(int64_t rank) {
    std::vector<Span> &spans = result.rows[rank];
    if (spans.size() == table.rows[rank].size())
      return false;
    Task task = table.rows[rank][spans.size()];
    int64_t stage = table.placement.getStage(rank, task.chunk);
    double begin = getReadyTime(rank);
    if (auto [ends, from] = getNeed(stage, task); from >= 0) {
      std::optional<double> arrival = getArrival(*ends, from, stage, task.microBatch);
      if (!arrival)
        return false;
      begin = std::max(begin, *arrival);
    }
    double end = begin + getDuration(stage, task.work);
    spans.push_back({task, begin, end});
    if (task.work == Work::Forward)
      forwardEnds[getIndex(stage, task.microBatch)] = end;
    else if (task.work != Work::BackwardWeight)
      backwardEnds[getIndex(stage, task.microBatch)] = end;
    return true;
  }

  Error describeDeadlock() const {
    std::string text = "the schedule '" + table.name + "' deadlocks:";
    for (auto [rank, spans] : enumerate(result.rows)) {
      if (spans.size() == table.rows[rank].size())
        continue;
      const Task &task = table.rows[rank][spans.size()];
      int64_t stage = table.placement.getStage(rank, task.chunk);
      int64_t from = getNeed(stage, task).second;
      text += "\n  pipeline coordinate " + std::to_string(rank) + " at task " +
              std::to_string(spans.size()) + ", " + describeTask(task) + " of stage " +
              std::to_string(stage) + ", waits for " +
              (task.work == Work::Forward ? "the forward" : "the backward") + " of stage " +
              std::to_string(from) + " on pipeline coordinate " +
              std::to_string(table.placement.getRank(from));
    }
    return createStringError(inconvertibleErrorCode(), text);
  }

  const PipelineSchedule &table;
  const PipelineTimes &times;
  Ends forwardEnds, backwardEnds;
  Replay result;
};

} // namespace

std::vector<std::pair<double, double>> traceHeld(ArrayRef<Span> row, ArrayRef<int64_t> sizes) {
  std::vector<std::pair<double, double>> changes;
  double sum = 0;
  for (const Span &span : row) {
    double size = sizes.empty() ? 1 : double(sizes[span.task.chunk]);
    if (span.task.work == Work::Forward)
      changes.emplace_back(span.begin, sum += size);
    else if (span.task.work != Work::BackwardInput)
      changes.emplace_back(span.end, sum -= size);
  }
  return changes;
}

double getPeakHeld(ArrayRef<Span> row, ArrayRef<int64_t> sizes) {
  double peak = 0;
  for (auto [time, held] : traceHeld(row, sizes))
    peak = std::max(peak, held);
  return peak;
}

std::vector<std::vector<Task>> Replay::listTasks() const {
  std::vector<std::vector<Task>> tasks;
  for (const std::vector<Span> &row : rows) {
    std::vector<Task> &listed = tasks.emplace_back();
    for (const Span &span : row)
      listed.push_back(span.task);
  }
  return tasks;
}

void measureReplay(Replay &replay) {
  double busy = 0;
  replay.makespan = 0;
  replay.peakLive.clear();
  for (const std::vector<Span> &spans : replay.rows)
    for (const Span &span : spans) {
      replay.makespan = std::max(replay.makespan, span.end);
      busy += span.end - span.begin;
    }
  double all = replay.makespan * double(replay.rows.size());
  replay.bubble = all > 0 ? 1 - busy / all : 0;
  for (const std::vector<Span> &spans : replay.rows)
    replay.peakLive.push_back(int64_t(getPeakHeld(spans)));
}

Expected<Replay> replay(const PipelineSchedule &table, const PipelineTimes &times) {
  if (Error error = checkPipelineSchedule(table))
    return std::move(error);
  if (int64_t(times.stages.size()) != table.placement.getNumStages())
    return createStringError(inconvertibleErrorCode(),
                             "times are given for " + describeCount(times.stages.size(), "stage") +
                                 ", but the schedule has " + Twine(table.placement.getNumStages()));
  return Simulator(table, times).run();
}

} // namespace parashard::schedules
