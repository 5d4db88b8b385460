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
  /// True if the node was sharded before propagation (a seed). A fixed node gives splits, and takes
  /// none.
  bool fixed = false;
  /// Splits that a policy offers after the first fixed point; empty: none.
  TensorSplits later;
  /// Axes that came from later seeds, or in the update from ZeRO's splits. If `choosePartials`
  /// keeps the node partial over such an axis, the axis no longer splits the node.
  llvm::SmallVector<mlir::StringAttr, 1> laterAxes;
  /// True if ZeRO split the node further.
  bool splitLater = false;
  /// True if propagation may split the node over data, context and expert axes. True for values and
  /// false for variables, which only seeds and ZeRO split over these axes.
  bool takesDataAxes = true;
  /// True if all operands of the op are scalars, as for a constant, an iota or a broadcast scalar.
  /// Every rank can compute any part of such a value, so the node takes the splits of its users and
  /// gives none.
  bool constant = false;
  /// True if the function returns the value, which is therefore never partial.
  bool returned = false;
  /// Edge that last changed the splits; -1: seeded, or never split.
  int cause = -1;
  llvm::SmallVector<unsigned, 4> edges;
};

/// A connection between nodes: an op with its rule, a variable with a value that is read or
/// written, or a parameter with a variable that belongs to it.
struct ShardingEdge {
  enum class Kind { Op, Read, Write, Accumulate, Belongs };
  Kind kind = Kind::Op;
  mlir::Operation *op = nullptr;
  /// never null; a pointer because rules are large and edges are moved
  std::unique_ptr<const ps::ShardingRule> rule;
  llvm::SmallVector<int, 3> operands; ///< node indices; -1: not a tensor
  llvm::SmallVector<int, 2> results;  ///< as `operands`
  /// True if data, context and expert axes do not propagate along the edge: for `Belongs`, and for
  /// a `Read` at which the parameter is gathered.
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
  /// `Belongs` edges come first, then functions that accumulate, then other functions. Within a
  /// function, edges are in program order. The list is empty if all axes have size 1.
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
