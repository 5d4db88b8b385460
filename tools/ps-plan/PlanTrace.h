// Declares how ps-plan reads the trace of a plan's program.
#ifndef PARASHARD_TOOLS_PS_PLAN_PLANTRACE_H
#define PARASHARD_TOOLS_PS_PLAN_PLANTRACE_H

#include "lib/Schedules/Trace.h"

namespace parashard {

/// The properties of a plan that can be compared with a trace.
struct PlanShape {
  int64_t ranks = 1;              ///< of the mesh
  schedules::Placement placement; ///< of the pipeline stages; its ranks are pipeline coordinates
  int64_t microBatches = 1;
  std::string schedule; ///< as in `--schedule`; empty: the default
};

/// Returns the shape of a plan with these flags. `ranks` may be 0, as in `parseMesh`. An empty
/// `schedule` is the default schedule.
llvm::Expected<PlanShape> makeShape(llvm::StringRef mesh, int64_t ranks, int64_t chunks,
                                    llvm::StringRef schedule, int64_t microBatches);

struct MeasuredTrace {
  schedules::Trace trace;
  schedules::MeasuredSteps steps;
};

/// Reads a trace and its steps. Fails if the trace does not match the shape. Errors do not name the
/// file.
llvm::Expected<MeasuredTrace> readTraceOf(const PlanShape &shape, const std::string &path);

} // namespace parashard

#endif
