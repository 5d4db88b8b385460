// Replays a schedule: how long it takes, what is idle, what is kept.
#ifndef PARASHARD_LIB_SCHEDULES_SIMULATOR_H
#define PARASHARD_LIB_SCHEDULES_SIMULATOR_H

#include "lib/Schedules/PipelineSchedule.h"

namespace parashard::schedules {

/// What the work of one stage takes on one micro-batch, in any unit of time.
struct StageTimes {
  double forward = 1;
  double backwardInput = 1;
  double backwardWeight = 1;
};

struct PipelineTimes {
  std::vector<StageTimes> stages; ///< by stage
  double hop = 0;                 ///< from one rank to another; nothing on the same one
};

/// When a task ran.
struct Span {
  Task task;
  double begin, end;
};

struct Replay {
  std::vector<std::vector<Span>> rows; ///< by rank, in the schedule's order
  double makespan = 0;                 ///< from the first task's begin to the last one's end
  double bubble = 0;                   ///< the idle part of all ranks' time
  /// By rank: the most micro-batches of its stages that were held at once, from the begin of their
  /// forward to the end of their last backward.
  std::vector<int64_t> peakLive;
};

/// What a rank holds over time, as (time, sum from then on): a micro-batch of chunk c takes
/// `sizes[c]` (1 where there are no sizes) from the begin of its forward to the end of its last
/// backward.
std::vector<std::pair<double, double>> traceHeld(llvm::ArrayRef<Span> row,
                                                 llvm::ArrayRef<int64_t> sizes = {});
/// The most of it at once.
double getPeakHeld(llvm::ArrayRef<Span> row, llvm::ArrayRef<int64_t> sizes = {});

/// Sets what follows from a replay's rows.
void measureReplay(Replay &replay);

/// Runs each rank's tasks in order, each as soon as what it waits for has arrived. An error names
/// the tasks that wait for one another when not all come to their end.
llvm::Expected<Replay> replay(const PipelineSchedule &table, const PipelineTimes &times);

} // namespace parashard::schedules

#endif
