// Records why a variable has its sharding. Later levels keep the reason in the attribute
// `ps.reason`.
#ifndef PARASHARD_LIB_SHARDING_REASONS_H
#define PARASHARD_LIB_SHARDING_REASONS_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// Records the location of the first use of each parameter (`kUsedAtMark`).
void recordUses(mlir::ModuleOp module);

void setReason(ps::VariableOp variable, const llvm::Twine &reason);
/// Returns the reason of a variable's sharding, or "" if there is none.
llvm::StringRef getReason(ps::VariableOp variable);
/// Describes the source of a node's splits: the variable or op (with its source line) from which
/// the splits were propagated, or "seed". Returns "replicated: propagation found no split" if the
/// splits have no such source and no dim is split.
std::string describeCause(const ShardingGraph &graph, unsigned node);
/// Formats a location for users. Example: `h.0.attn (model.py:12)`.
std::string describeLocation(mlir::Location loc);

} // namespace parashard::sharding

#endif
