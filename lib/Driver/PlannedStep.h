// A pipeline's step by its plan, before anything runs.
#ifndef PARASHARD_LIB_DRIVER_PLANNEDSTEP_H
#define PARASHARD_LIB_DRIVER_PLANNEDSTEP_H

#include "lib/IR/Stages.h"
#include "lib/Schedules/Timeline.h"
#include "parashard/Driver.h"

namespace parashard {

struct PlannedStep {
  ps::Stages stages;
  std::string schedule;
  int64_t microBatches = 1;
  std::vector<ps::StageCost> costs; ///< by stage
  /// On a clock that counts each stage's operations, in billions: as if all ranks were equally
  /// fast, and messages took no time.
  schedules::Replay run;

  /// "1f1b, 2 stages on 2 pipeline coordinates, 4 micro-batches"
  std::string describe() const;
  /// What a micro-batch of each chunk of a coordinate keeps for its backward.
  std::vector<int64_t> getSavedBytes(int64_t coordinate) const;
  /// How its picture is drawn.
  schedules::TimelineOptions getTimeline() const;
};

/// The step of a module at level `planned` or later, as the module has it, else as the options say;
/// nothing where it has no pipeline, or no step. Errors: a schedule that cannot be.
llvm::Expected<std::optional<PlannedStep>> planStep(mlir::ModuleOp module,
                                                    const CompileOptions &options);

} // namespace parashard

#endif
