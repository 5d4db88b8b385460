// Caches how the ops of a graph run under the shardings of their operands and results.
#ifndef PARASHARD_LIB_SHARDING_EDGESHARDINGS_H
#define PARASHARD_LIB_SHARDING_EDGESHARDINGS_H

#include "lib/Sharding/ShardingGraph.h"
#include <map>

namespace parashard::sharding {

/// Caches the results of `computeOpSharding` for the ops of a graph, by the shardings of their
/// operands and results. The graph must outlive this object; its edges must not change.
class EdgeShardings {
public:
  explicit EdgeShardings(const ShardingGraph &graph) : graph(graph), known(graph.edges.size()) {}

  /// Returns how the op `edge` runs. `nodes` has the sharding of each node. The returned reference
  /// stays valid after later calls.
  const OpSharding &get(unsigned edge, llvm::ArrayRef<ps::ShardingAttr> nodes);

  /// Returns the sharding of each node.
  std::vector<ps::ShardingAttr> getNodes() const;

private:
  const ShardingGraph &graph;
  /// By edge, then by the shardings of its operands and results.
  std::vector<std::map<llvm::SmallVector<const void *, 4>, OpSharding>> known;
};

} // namespace parashard::sharding

#endif
