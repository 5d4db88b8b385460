// Names the results of ops of the model, for sharding files.
#ifndef PARASHARD_LIB_SHARDING_NAMEDRESULTS_H
#define PARASHARD_LIB_SHARDING_NAMEDRESULTS_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// The first result of an op of `@forward` or `@evaluate`. Example: the second matmul of the module
/// `h.0.mlp` has path "h.0.mlp", op "contract", number 1.
struct NamedResult {
  unsigned node;        ///< node of the graph
  llvm::StringRef path; ///< path of the module; empty for an op outside of modules
  llvm::StringRef op;   ///< name of the op without its dialect
  unsigned number;      ///< index among the ops with the same path and name, from 0
};

/// Returns the first result of each op of the model that has a sharding rule, in program order. The
/// module owns the strings.
std::vector<NamedResult> listResults(const ShardingGraph &graph);

} // namespace parashard::sharding

#endif
