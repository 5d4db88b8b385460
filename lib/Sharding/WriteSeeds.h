// Writes the seeds of a policy as a sharding file.
#ifndef PARASHARD_LIB_SHARDING_WRITESEEDS_H
#define PARASHARD_LIB_SHARDING_WRITESEEDS_H

#include "lib/Sharding/Policy.h"
#include "llvm/Support/JSON.h"

namespace parashard::sharding {

/// Returns a sharding file from which `seedFromFile` reads the same seeds. `graph` must have the
/// propagated splits of the seeds, without those of later seeds. Equal splits of all blocks of a
/// list become one entry, such as "model.layers.*.mlp.up_proj.weight".
///
/// `list` is the path of a list whose blocks are only partly in `graph`, such as "model.layers";
/// empty if no blocks are missing. Each split in this list must be written as one entry for all its
/// blocks. Returns nullopt if this is not possible.
std::optional<llvm::json::Object> writeSeeds(const ShardingGraph &graph, const Seeds &seeds,
                                             llvm::StringRef list);

} // namespace parashard::sharding

#endif
