// Declares how ps-plan chooses among plans by the traces of their programs.
#ifndef PARASHARD_TOOLS_PS_PLAN_MEASUREDPLANS_H
#define PARASHARD_TOOLS_PS_PLAN_MEASUREDPLANS_H

#include "Flags.h"
#include "llvm/ADT/StringMap.h"

namespace parashard {

/// Compares the plans `line.files` by the traces `line.traces`, and writes the fastest plan to
/// `-o`. Without traces, reads PLAN.trace.json of each PLAN.json. Fails if a plan or a trace cannot
/// be read, if a trace is not of its plan, and if the plans are of different models or global
/// batches.
llvm::Error compareMeasured(PlanLine &line);

/// Reads the trace of the plan to price. Returns the measured seconds of the ops of each run. Fails
/// if the trace is not of the plan.
llvm::Expected<llvm::StringMap<double>> readMeasuredRuns(const PlanLine &line);

} // namespace parashard

#endif
