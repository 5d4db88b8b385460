// Simulates a schedule: its duration, idle time and live micro-batches.
#ifndef PARASHARD_LIB_SCHEDULES_SIMULATOR_H
#define PARASHARD_LIB_SCHEDULES_SIMULATOR_H

#include "lib/Schedules/PipelineSchedule.h"

namespace parashard::schedules {

/// Times of one stage on one micro-batch, in any unit.
struct StageTimes {
  double forward = 1;
  double backwardInput = 1;
  double backwardWeight = 1;
};

struct PipelineTimes {
  std::vector<StageTimes> stages; ///< by stage
  double hop = 0; ///< time of a message between two ranks; messages within a rank take no time
};

/// Begin and end of a task.
struct Span {
  Task task;
  double begin, end;
};

struct Replay {
  std::vector<std::vector<Span>> rows; ///< by rank, in the schedule's order
  double makespan = 0;                 ///< from the first task's begin to the last task's end
  double bubble = 0;                   ///< idle share of all ranks' time
  /// By rank: the maximum of live micro-batches of its stages. A micro-batch is live from the begin
  /// of its forward to the end of its last backward.
  std::vector<int64_t> peakLive;
};

/// Returns what a rank keeps over time, as pairs of a time and the total from then on. A live
/// micro-batch of chunk c counts `sizes[c]`, or 1 if there are no sizes.
std::vector<std::pair<double, double>> traceHeld(llvm::ArrayRef<Span> row,
                                                 llvm::ArrayRef<int64_t> sizes = {});
/// Returns the maximum that a rank keeps at once.
double getPeakHeld(llvm::ArrayRef<Span> row, llvm::ArrayRef<int64_t> sizes = {});

/// Computes the makespan, bubble and live micro-batches from a replay's rows.
void measureReplay(Replay &replay);

/// Runs each rank's tasks in order, each as soon as its inputs have arrived. Fails if the tasks
/// deadlock; the error names the tasks that wait for one another.
llvm::Expected<Replay> replay(const PipelineSchedule &table, const PipelineTimes &times);

} // namespace parashard::schedules

#endif
