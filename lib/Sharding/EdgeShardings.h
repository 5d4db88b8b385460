// Caches the shardings of a graph's nodes, and how its ops run under them.
#ifndef PARASHARD_LIB_SHARDING_EDGESHARDINGS_H
#define PARASHARD_LIB_SHARDING_EDGESHARDINGS_H

#include "lib/Sharding/OpShardingCache.h"
#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// Caches how the ops of a graph run under shardings of their operands and results. Also caches the
/// last sharding attribute of each node, because creating attributes is slow. The graph must
/// outlive this object; its edges must not change.
class EdgeShardings {
public:
  explicit EdgeShardings(const ShardingGraph &graph);

  /// Returns how the op of edge number `edge` runs. `nodes[i]` is the sharding of node i. The
  /// returned reference stays valid after later calls.
  const OpSharding &get(unsigned edge, llvm::ArrayRef<ps::ShardingAttr> nodes);

  /// Returns the current sharding of each node of the graph.
  std::vector<ps::ShardingAttr> getNodes();
  /// Returns the current sharding of a node.
  ps::ShardingAttr getNode(unsigned node);

private:
  struct NodeSharding {
    TensorSplits splits;
    llvm::SmallVector<ps::PartialAttr, 2> partial;
    ps::ShardingAttr sharding; ///< null: not computed yet
  };

  const ShardingGraph &graph;
  OpShardingCache cache;
  std::vector<unsigned> rules;    ///< by edge: the number of its rule in `cache`
  std::vector<NodeSharding> last; ///< by node
};

} // namespace parashard::sharding

#endif
