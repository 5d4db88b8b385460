// Records why a variable has its sharding, as an attribute that later levels keep (`ps.reason`).
#ifndef PARASHARD_LIB_SHARDING_REASONS_H
#define PARASHARD_LIB_SHARDING_REASONS_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// Records the location of the first use of each parameter (`kUsedAtMark`).
void recordUses(mlir::ModuleOp module);

void setReason(ps::VariableOp variable, const llvm::Twine &reason);
/// Returns the reason of a variable's sharding, or "" if there is none.
llvm::StringRef getReason(ps::VariableOp variable);
/// Describes the source of a node's splits: the variable that the node follows, an op (with its
/// source line), or "seed". Returns "replicated: propagation found no split" if there is neither a
/// variable nor an op, and no dim is split.
std::string describeCause(const ShardingGraph &graph, unsigned node);
/// Formats a location for users. Example: `h.0.attn (model.py:12)`.
std::string describeLocation(mlir::Location loc);

} // namespace parashard::sharding

#endif
