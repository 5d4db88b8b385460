// Declares the passes of the planner.
#ifndef PARASHARD_PLANNER_H
#define PARASHARD_PLANNER_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace parashard::planner {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Planner/Passes.h.inc"

} // namespace parashard::planner

#endif
