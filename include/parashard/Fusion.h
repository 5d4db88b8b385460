// From local ops to kernels: which ops of a class function are computed together, and which
// collectives run beside them.
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
