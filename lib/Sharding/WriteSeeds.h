// Writes the seeds of a policy as a sharding file.
#ifndef PARASHARD_LIB_SHARDING_WRITESEEDS_H
#define PARASHARD_LIB_SHARDING_WRITESEEDS_H

#include "lib/Sharding/Policy.h"
#include "llvm/Support/JSON.h"

namespace parashard::sharding {

/// Returns the sharding file from which `seedFromFile` reads the seeds. `graph` must have the
/// propagated splits of the seeds, without later ones. Equal splits of all blocks of a list are one
/// entry: "model.layers.*.mlp.up_proj.weight". `list` is the path of a list that lacks some of its
/// blocks, such as "model.layers", or empty. Returns nullopt if such an entry is not possible for
/// this list.
std::optional<llvm::json::Object> writeSeeds(const ShardingGraph &graph, const Seeds &seeds,
                                             llvm::StringRef list);

} // namespace parashard::sharding

#endif
