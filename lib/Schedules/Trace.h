// Reads the trace of a compiled program's pipeline: the measured times of its steps.
#ifndef PARASHARD_LIB_SCHEDULES_TRACE_H
#define PARASHARD_LIB_SCHEDULES_TRACE_H

#include "lib/Schedules/Simulator.h"

namespace parashard::schedules {

/// One measured step; times are in milliseconds.
struct MeasuredStep {
  int64_t number = 0;
  Replay run;        ///< from the start of the first task; one rank per pipeline coordinate
  double update = 0; ///< the longest update time of a rank
};

struct MeasuredPipeline {
  Placement placement;
  int64_t microBatches = 0;
  std::vector<MeasuredStep> steps;
  /// Times of each stage: medians over micro-batches and steps. The first step (warm-up) is
  /// excluded unless it is the only one.
  std::vector<StageTimes> stages;
  double update = 0; ///< median update time over the same steps

  /// Returns the step with the median makespan. Ignores the first step (warm-up) if there are
  /// several.
  const MeasuredStep &getTypicalStep() const;
};

/// Reads a file that `--trace FILE.json` wrote. Fails if the text is not such a trace, or if the
/// program has no pipeline.
llvm::Expected<MeasuredPipeline> readTrace(llvm::StringRef json);

} // namespace parashard::schedules

#endif
