// Why a variable or an input has its sharding, in words that travel with the program.
#ifndef PARASHARD_LIB_SHARDING_REASONS_H
#define PARASHARD_LIB_SHARDING_REASONS_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::ps {

/// On variables, and on ops whose results a policy splits: a string for `--explain`.
inline constexpr llvm::StringLiteral kReasonMark = "ps.reason";

/// On parameters from level 2 on: where the model first uses it, as `describeLocation` says it.
inline constexpr llvm::StringLiteral kUsedAtMark = "ps.used_at";
/// Marks every parameter that a function reads.
void recordUses(mlir::ModuleOp module);

void setReason(VariableOp variable, const llvm::Twine &reason);
llvm::StringRef getReason(VariableOp variable);
/// What gave a node its splits: the op (with its source line) or the variable that it follows.
std::string describeCause(const ShardingGraph &graph, unsigned node);
/// A location as a user reads it: `h.0.attn (model.py:12)`.
std::string describeLocation(mlir::Location loc);

} // namespace parashard::ps

#endif
