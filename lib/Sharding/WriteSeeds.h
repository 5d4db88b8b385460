// Writes the seeds of a policy as a sharding file.
#ifndef PARASHARD_LIB_SHARDING_WRITESEEDS_H
#define PARASHARD_LIB_SHARDING_WRITESEEDS_H

#include "lib/Sharding/Policy.h"
#include "llvm/Support/JSON.h"

namespace parashard::sharding {

/// Returns a sharding file from which `seedFromFile` reads the same seeds. `graph` must have the
/// splits that result from propagating `seeds.variables` alone; `seeds.values` must not have been
/// propagated. If all blocks of a list of modules have equal splits, the splits become one entry,
/// such as "model.layers.*.mlp.up_proj.weight".
///
/// `list` is the path of a list of modules, such as "model.layers", if `graph` contains only some
/// of its blocks; otherwise `list` is empty. Each split in this list must be written as one entry
/// for all of its blocks. Returns nullopt if a split cannot be written.
std::optional<llvm::json::Object> writeSeeds(const ShardingGraph &graph, const Seeds &seeds,
                                             llvm::StringRef list);

} // namespace parashard::sharding

#endif
