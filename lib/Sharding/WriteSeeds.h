// Writes the seeds of a policy as a sharding file.
#ifndef PARASHARD_LIB_SHARDING_WRITESEEDS_H
#define PARASHARD_LIB_SHARDING_WRITESEEDS_H

#include "lib/Sharding/Policy.h"
#include "llvm/Support/JSON.h"

namespace parashard::sharding {

/// Returns the sharding file from which `seedFromFile` reads the seeds. `graph` must have the
/// propagated splits of the seeds, without later ones. `list` is the path of a list of equal
/// blocks, such as "model.layers", or empty: its entries are globs
/// ("model.layers.*.mlp.up_proj.weight"), so that the file also holds for a model with more of
/// these blocks. Returns nullopt if blocks of the list have different seeds.
std::optional<llvm::json::Object> writeSeeds(const ShardingGraph &graph, const Seeds &seeds,
                                             llvm::StringRef list);

} // namespace parashard::sharding

#endif
