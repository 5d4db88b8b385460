// Offloads variables and saved activations to host memory.
#ifndef PARASHARD_LIB_PIPELINE_OFFLOAD_H
#define PARASHARD_LIB_PIPELINE_OFFLOAD_H

#include "dialects/rank/Rank.h"
#include "lib/Costs/Cluster.h"

namespace parashard::pipeline {

/// Offloads each variable that only a single run of the update uses: sets `ps.host`, inserts a
/// fetch before the run, and a copy back to the host after the run. Several runs may share a fetch.
/// Each fetch except the last has at least min(`pieceBytes`, an eighth of the section's offloaded
/// bytes) bytes. Returns false if no variable is offloaded.
bool offloadVariables(mlir::ModuleOp module, int64_t pieceBytes);

/// Offloads values if this lowers the peak of live bytes. Considers values that are received or
/// produced by forward runs, and that backward runs use. With `onlyHidden`, offloads only values
/// whose copies overlap fully with computation. Returns false if no value is offloaded.
bool offloadValues(mlir::ModuleOp module, const costs::Cluster &cluster, bool onlyHidden);

} // namespace parashard::pipeline

#endif
