// The values and variables of a module and what ties their shardings: what propagation works on.
#ifndef PARASHARD_LIB_SHARDING_SHARDINGGRAPH_H
#define PARASHARD_LIB_SHARDING_SHARDINGGRAPH_H

#include "lib/Sharding/OpSharding.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace parashard::ps {

/// On ops between the policy and propagation: a sharding per result (or unit) that it is offered
/// when all else is known.
inline constexpr llvm::StringLiteral kLaterShardingsMark = "ps.later_shardings";

/// A tensor value of a function, or a variable.
struct ShardingNode {
  mlir::Value value;   ///< null for a variable
  VariableOp variable; ///< null for a value
  llvm::SmallVector<int64_t, 4> shape;
  int64_t bytes = 0; ///< of the whole tensor
  TensorSplits splits;
  llvm::SmallVector<PartialAttr, 2> partial;
  /// Decided before propagation (a seed): it gives, and takes nothing.
  bool fixed = false;
  /// What a policy offers it after the first fixpoint; empty: nothing.
  TensorSplits later;
  /// The axes that came with what was offered later, or in the update with ZeRO's splits. They
  /// yield to partial sums.
  llvm::SmallVector<mlir::StringAttr, 1> laterAxes;
  /// Split by ZeRO, over what was known of it before.
  bool splitLater = false;
  /// Data, context and expert axes may split it (values; not parameters and what belongs to them,
  /// unless they were seeded so).
  bool takesDataAxes = true;
  /// A constant, an index sequence or a scalar repeated: every rank can make any part of it, so it
  /// takes the split of its users and gives none.
  bool constant = false;
  /// Returned from its function, so never partial.
  bool returned = false;
  /// The edge that last changed it; -1: as it was seeded, or never split.
  int cause = -1;
  llvm::SmallVector<unsigned, 4> edges;
};

/// What ties nodes: an op with its rule, or a variable with a value of it or with what belongs to
/// it.
struct ShardingEdge {
  enum class Kind { Op, Read, Write, Accumulate, Belongs };
  Kind kind = Kind::Op;
  mlir::Operation *op = nullptr;
  std::unique_ptr<const ShardingRule> rule; ///< never null; a rule is large, and edges are moved
  llvm::SmallVector<int, 3> operands;       ///< node numbers; -1: not a tensor
  llvm::SmallVector<int, 2> results;
  /// Data, context and expert axes do not pass (a parameter is gathered at each read).
  bool modelAxesOnly = false;
  /// 0 is propagated before 1: elementwise, movement and variables before contractions.
  unsigned priority = 0;
};

struct ShardingGraph {
  MeshShape mesh;
  std::vector<ShardingNode> nodes;
  /// Functions that accumulate first; within a function in program order.
  std::vector<ShardingEdge> edges;
  llvm::DenseMap<mlir::Value, unsigned> values;
  llvm::DenseMap<mlir::StringAttr, unsigned> variables;

  /// The graph of all functions and variables of a module with a mesh; what carries a sharding
  /// mark already is fixed.
  static ShardingGraph build(mlir::ModuleOp module, MeshOp mesh);
  /// The variables alone, for a policy that looks at nothing else.
  static ShardingGraph buildVariables(mlir::ModuleOp module, MeshOp mesh);
  ShardingAttr getSharding(unsigned node) const;
};

} // namespace parashard::ps

#endif
