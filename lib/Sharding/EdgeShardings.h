// Remembers how the ops of a graph run under some shardings.
#ifndef PARASHARD_LIB_SHARDING_EDGESHARDINGS_H
#define PARASHARD_LIB_SHARDING_EDGESHARDINGS_H

#include "lib/Sharding/ShardingGraph.h"
#include <map>

namespace parashard::sharding {

/// Calls `computeOpSharding` for the ops of a graph, once for each op and shardings of its operands
/// and results. The graph must outlive this object; its edges must not change.
class EdgeShardings {
public:
  explicit EdgeShardings(const ShardingGraph &graph) : graph(graph), known(graph.edges.size()) {}

  /// Returns how the op `edge` runs. `nodes` has the sharding of each node. The reference stays
  /// valid.
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
