// Declares fusion: groups the ops of a class function into kernels, and chooses the collectives to
// overlap with these kernels.
#ifndef PARASHARD_FUSION_H
#define PARASHARD_FUSION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace parashard::fusion {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Fusion/Passes.h.inc"

} // namespace parashard::fusion

#endif
