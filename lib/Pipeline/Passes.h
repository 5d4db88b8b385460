// Declares the passes that find a program's segments, assign them to stages, and schedule their
// runs.
#ifndef PARASHARD_LIB_PIPELINE_PASSES_H
#define PARASHARD_LIB_PIPELINE_PASSES_H

#include "dialects/rank/Rank.h"
#include "mlir/Pass/Pass.h"

namespace parashard::pipeline {

#define GEN_PASS_DECL
#include "lib/Pipeline/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "lib/Pipeline/Passes.h.inc"

} // namespace parashard::pipeline

#endif
