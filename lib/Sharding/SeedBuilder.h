// Finds the variables from which a split value is computed, and builds their seeds.
#ifndef PARASHARD_LIB_SHARDING_SEEDBUILDER_H
#define PARASHARD_LIB_SHARDING_SEEDBUILDER_H

#include "lib/Sharding/GraphStructure.h"
#include "lib/Sharding/Policy.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

namespace parashard::sharding {

/// Seeds that belong together: either all of them apply, or none.
struct SeedPlan {
  llvm::MapVector<unsigned, TensorSplits> variables;
  llvm::DenseSet<unsigned> visited; ///< values that were already visited
  bool failed = false;
};

/// The base of policies that split variables over the tensor axes. Edges and nodes are passed by
/// index.
class SeedBuilder {
protected:
  /// `graph` must outlive this object, and its mesh must have a tensor axis. `policy` is the first
  /// word of each reason.
  SeedBuilder(const ShardingGraph &graph, llvm::StringRef policy);

  /// Splits the variables from which a value is computed, so that the value has the splits
  /// `splits`. Adds the splits of the variables to `plan`. Sets `plan.failed` if computing the
  /// split value would need communication.
  void splitSources(unsigned node, const TensorSplits &splits, SeedPlan &plan);
  /// Adds the seeds of a plan, except for variables that already have a seed.
  void commit(const SeedPlan &plan, const llvm::Twine &reason);
  /// Splits the first operand of an edge along dim `dim`: adds seeds for the variables from which
  /// the operand is computed. Adds no seeds if computing the split operand would need
  /// communication.
  void splitOperand(unsigned edge, unsigned dim, llvm::StringRef reason);
  /// Splits the rows of an embedding's table. Does nothing for other ops, and for tables that
  /// depend on an input.
  void splitTable(unsigned edge, llvm::StringRef reason);

  /// Returns " at MODULE (FILE:LINE)", or "" for an op without a location.
  static std::string at(mlir::Operation *op);
  /// Describes the padding of `size` elements over the shards. Example: "; 50 rows are padded
  /// to 52". Returns "" if `size` is divisible by the number of shards.
  std::string describePadding(llvm::StringRef noun, int64_t size) const;

  const ShardingGraph &graph;
  const MeshShape &mesh;
  GraphStructure structure;
  llvm::SmallVector<mlir::StringAttr> axes; ///< the tensor axes
  int64_t shards;                           ///< number of shards over the tensor axes
  std::vector<Seed> seeds;

private:
  bool splitsWholeFactor(const ps::ShardingRule &rule, llvm::ArrayRef<Split> factors) const;
  void splitVariable(unsigned variable, const TensorSplits &splits, SeedPlan &plan);

  llvm::StringRef policy;
  llvm::DenseMap<unsigned, TensorSplits> decided;
};

} // namespace parashard::sharding

#endif
