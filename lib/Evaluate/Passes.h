// Declares ps-canonicalize and ps-print-sharding-rules.
#ifndef PARASHARD_LIB_EVALUATE_PASSES_H
#define PARASHARD_LIB_EVALUATE_PASSES_H

#include "dialects/ps/Ps.h"
#include "mlir/Pass/Pass.h"

namespace parashard::evaluate {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Evaluate/Passes.h.inc"

} // namespace parashard::evaluate

#endif
