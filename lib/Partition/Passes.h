// Declares the passes that turn level 2 into level 3.
#ifndef PARASHARD_LIB_PARTITION_PASSES_H
#define PARASHARD_LIB_PARTITION_PASSES_H

#include "dialects/rank/Rank.h"
#include "mlir/Pass/Pass.h"

namespace parashard::partition {

#define GEN_PASS_DECL
#include "lib/Partition/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "lib/Partition/Passes.h.inc"

} // namespace parashard::partition

#endif
