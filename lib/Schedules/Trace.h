// Reads the trace of a program with a pipeline: the measured times of its steps.
#ifndef PARASHARD_LIB_SCHEDULES_TRACE_H
#define PARASHARD_LIB_SCHEDULES_TRACE_H

#include "lib/Schedules/Simulator.h"

namespace parashard::schedules {

/// One measured step; times are in milliseconds.
struct MeasuredStep {
  int64_t number = 0;
  Replay run;        ///< times since the start of the first task; a rank is a coordinate
  double update = 0; ///< the longest update time of a rank
};

struct MeasuredPipeline {
  Placement placement;
  int64_t microBatches = 0;
  std::vector<MeasuredStep> steps;
  /// Median times of each stage, over micro-batches and steps. Excludes the first step (warm-up) if
  /// there are several.
  std::vector<StageTimes> stages;
  double update = 0; ///< median update time over the same steps

  /// Returns the step with the median makespan. Excludes the first step (warm-up) if there are
  /// several.
  const MeasuredStep &getTypicalStep() const;
};

/// Reads a file that `--trace FILE.json` wrote. Fails if the text is not a trace, if the program
/// has no pipeline, or if events are missing.
llvm::Expected<MeasuredPipeline> readTrace(llvm::StringRef json);

} // namespace parashard::schedules

#endif
