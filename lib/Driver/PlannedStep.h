// Declares the planned pipeline schedule of a step.
#ifndef PARASHARD_LIB_DRIVER_PLANNEDSTEP_H
#define PARASHARD_LIB_DRIVER_PLANNEDSTEP_H

#include "lib/IR/Stages.h"
#include "lib/Schedules/Timeline.h"
#include "parashard/Driver.h"

namespace parashard::driver {

struct PlannedStep {
  ir::Stages stages;
  std::string schedule;
  int64_t microBatches = 1;
  std::vector<ir::StageCost> costs; ///< one per stage
  /// Simulated times. One unit is the time in which a rank computes 10^9 flops. Assumes that all
  /// ranks are equally fast and that messages take no time.
  schedules::Replay run;

  /// Returns a text such as "1f1b, 2 stages on 2 pipeline coordinates, 4 micro-batches".
  std::string describe() const;
  /// Returns, for each chunk of a coordinate, the bytes that one micro-batch saves for backward.
  std::vector<int64_t> getSavedBytes(int64_t coordinate) const;
  /// Returns the options for drawing the schedule.
  schedules::TimelineOptions getTimeline() const;
};

/// Returns the planned step of a module at level `planned` or later. The schedule is that of the
/// module if the module has one, else that of the options. Returns nullopt without a pipeline, a
/// training step or recorded stage costs. Fails if the schedule is invalid or deadlocks.
llvm::Expected<std::optional<PlannedStep>> planStep(mlir::ModuleOp module,
                                                    const CompileOptions &options);

} // namespace parashard::driver

#endif
