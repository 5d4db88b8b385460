// Declares the passes of the sharding phase.
#ifndef PARASHARD_LIB_SHARDING_PASSES_H
#define PARASHARD_LIB_SHARDING_PASSES_H

#include "dialects/ps/Ps.h"
#include "mlir/Pass/Pass.h"

namespace parashard::sharding {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Sharding/Passes.h.inc"

} // namespace parashard::sharding

#endif
