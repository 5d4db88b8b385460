// Declares how ps-plan compares plans by traces of their programs.
#ifndef PARASHARD_TOOLS_PS_PLAN_MEASUREDPLANS_H
#define PARASHARD_TOOLS_PS_PLAN_MEASUREDPLANS_H

#include "Flags.h"
#include "llvm/ADT/StringMap.h"

namespace parashard {

/// Compares the plans `line.files` by the traces `line.traces`, and writes the fastest plan to
/// `-o`. Without traces, reads PLAN.trace.json of each PLAN.json. Fails if a plan or a trace cannot
/// be read, if a trace does not match its plan, or if the plans have different models or global
/// batches.
llvm::Error compareMeasured(PlanLine &line);

/// Reads the trace of the plan to price. Returns the measured seconds of the ops of each run (call
/// of a class function), by the run's label. Fails if the trace does not match the plan.
llvm::Expected<llvm::StringMap<double>> readMeasuredRuns(const PlanLine &line);

} // namespace parashard

#endif
