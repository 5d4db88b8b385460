// Connects the values and variables of a module for the propagation of shardings.
#ifndef PARASHARD_LIB_SHARDING_SHARDINGGRAPH_H
#define PARASHARD_LIB_SHARDING_SHARDINGGRAPH_H

#include "lib/Sharding/OpSharding.h"
#include "llvm/ADT/DenseMap.h"
#include <memory>

namespace parashard::sharding {

/// A tensor value of a function, or a variable.
struct ShardingNode {
  mlir::Value value;       ///< null for a variable
  ps::VariableOp variable; ///< null for a value
  llvm::SmallVector<int64_t, 4> shape;
  int64_t bytes = 0; ///< bytes of the whole tensor
  TensorSplits splits;
  llvm::SmallVector<ps::PartialAttr, 2> partial;
  /// True if the node was sharded before propagation (a seed). The splits of a fixed node are
  /// propagated to other nodes, but do not change.
  bool fixed = false;
  /// Splits that the policy offers to `propagateLaterSplits`, which runs after `propagateSplits`
  /// has reached its fixed point. Empty if the policy offers none.
  TensorSplits later;
  /// Axes that `propagateLaterSplits` added to the splits. For a value of the update, also the axes
  /// that `propagateZeroSplits` added. If `choosePartials` keeps the node partial over such an
  /// axis, the axis no longer splits the node.
  llvm::SmallVector<mlir::StringAttr, 1> laterAxes;
  /// True if ZeRO split the variable over more axes (`splitForZero`).
  bool splitByZero = false;
  /// True if propagation may split the node over data, context and expert axes. True for values.
  /// False for variables, because only seeds and ZeRO split variables over these axes.
  bool takesDataAxes = true;
  /// True if the op has no operands, or only scalars: a constant, an iota, a broadcast scalar.
  /// Every rank can compute any part of such a value. The node therefore gets the splits of its
  /// users, but its splits are not propagated to other nodes.
  bool constant = false;
  /// True if the function returns the value, which is therefore never partial.
  bool returned = false;
  /// Edge that last changed the splits; -1 for a seed, or if the node was never split.
  int cause = -1;
  llvm::SmallVector<unsigned, 4> edges;
};

/// A connection between nodes: an op with its rule, a variable with a value that is read or
/// written, or a parameter with a variable that belongs to it.
struct ShardingEdge {
  enum class Kind { Op, Read, Write, Accumulate, Belongs };
  Kind kind = Kind::Op;
  mlir::Operation *op = nullptr;
  /// Never null. A pointer, because rules are large and edges are moved.
  std::unique_ptr<const ps::ShardingRule> rule;
  llvm::SmallVector<int, 3> operands; ///< node indices; -1: not a tensor
  llvm::SmallVector<int, 2> results;  ///< node indices, as in `operands`
  /// True if data, context and expert axes do not propagate along the edge. True for `Belongs`
  /// edges, and for `Read` edges at which the parameter is gathered.
  bool modelAxesOnly = false;
  /// Edges of priority 0 are propagated first. Ops with a reduction factor, such as contractions,
  /// have priority 1.
  unsigned priority = 0;

  /// Returns true if the edge's op belongs to the optimizer's update.
  bool isInUpdate() const;
};

struct ShardingGraph {
  MeshShape mesh;
  std::vector<ShardingNode> nodes;
  /// `Belongs` edges come first, then the edges of functions that accumulate, then the edges of
  /// other functions. Within a function, edges are in program order. The list is empty if all axes
  /// have size 1.
  std::vector<ShardingEdge> edges;
  llvm::DenseMap<mlir::Value, unsigned> values;
  llvm::DenseMap<mlir::StringAttr, unsigned> variables;

  /// Builds the graph of all functions and variables of a module with a mesh. Nodes that already
  /// have a sharding are fixed.
  static ShardingGraph build(mlir::ModuleOp module, ps::MeshOp mesh);
  /// Builds a graph of the variables only, for policies that need nothing else.
  static ShardingGraph buildVariables(mlir::ModuleOp module, ps::MeshOp mesh);
  ps::ShardingAttr getSharding(unsigned node) const;
};

} // namespace parashard::sharding

#endif
