// What a compiled program traced of its pipeline: the step as it really ran.
#ifndef PARASHARD_LIB_SCHEDULES_TRACE_H
#define PARASHARD_LIB_SCHEDULES_TRACE_H

#include "lib/Schedules/Simulator.h"

namespace parashard::schedules {

/// Times are in milliseconds.
struct MeasuredStep {
  int64_t number = 0;
  Replay run;        ///< from the first task's begin; of one rank of each pipeline coordinate
  double update = 0; ///< what the slowest of them took for its part of the update
};

struct MeasuredPipeline {
  Placement placement;
  int64_t microBatches = 0;
  std::vector<MeasuredStep> steps;
  /// By stage, medians over micro-batches and steps; the first step is left out where there are
  /// others.
  std::vector<StageTimes> stages;
  double update = 0; ///< likewise

  /// The step whose makespan is the median.
  const MeasuredStep &getTypicalStep() const;
};

/// Reads what `--trace FILE.json` wrote. Errors: text that is no such trace, or no pipeline's.
llvm::Expected<MeasuredPipeline> readTrace(llvm::StringRef json);

} // namespace parashard::schedules

#endif
