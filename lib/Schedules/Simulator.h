// Simulates a schedule, and computes its duration, idle time and live micro-batches.
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
  double hop = 0;  ///< time of a message between two ranks; messages within a rank take no time
  double send = 0; ///< time that a rank spends sending a message before its next task
};

/// Start and end of a task.
struct Span {
  Task task;
  double begin, end;
};

/// Start and end of each task of one step, simulated or measured.
struct Replay {
  std::vector<std::vector<Span>> rows; ///< the tasks of each rank, in order
  double makespan = 0; ///< from the start of the first task to the end of the last task
  double bubble = 0;   ///< fraction of the ranks' time that is idle
  /// Maximum number of live micro-batches of each rank, summed over its chunks. A micro-batch is
  /// live on a chunk from the start of its forward to the end of its last backward task.
  std::vector<int64_t> peakLive;

  /// Returns the tasks of each rank, in order.
  std::vector<std::vector<Task>> listTasks() const;
};

/// Returns the live activations of a rank over time: one pair (time, total from this time on) per
/// change of the total. A live micro-batch of chunk c counts `sizes[c]`, or 1 if `sizes` is empty.
std::vector<std::pair<double, double>> traceHeld(llvm::ArrayRef<Span> row,
                                                 llvm::ArrayRef<int64_t> sizes = {});
/// Returns the peak of `traceHeld`.
double getPeakHeld(llvm::ArrayRef<Span> row, llvm::ArrayRef<int64_t> sizes = {});

/// Computes the other fields of `replay` from `replay.rows`, whose times start at 0.
void measureReplay(Replay &replay);

/// Simulates a step: each rank runs its tasks in order, each task as soon as its inputs have
/// arrived. Fails if the schedule is not valid or deadlocks, or if `times` is for another number of
/// stages. The error for a deadlock names the task at which each rank waits.
llvm::Expected<Replay> replay(const PipelineSchedule &table, const PipelineTimes &times);

} // namespace parashard::schedules

#endif
