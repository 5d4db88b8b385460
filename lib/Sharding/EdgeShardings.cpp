// Caches how the ops of a graph run under the shardings of their operands and results.
#include "lib/Sharding/EdgeShardings.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

const OpSharding &EdgeShardings::get(unsigned number, ArrayRef<ShardingAttr> nodes) {
  const ShardingEdge &edge = graph.edges[number];
  SmallVector<ShardingAttr, 4> operands, results;
  SmallVector<const void *, 4> key;
  auto add = [&](ArrayRef<int> list, SmallVectorImpl<ShardingAttr> &shardings) {
    for (int node : list) {
      shardings.push_back(node < 0 ? ShardingAttr() : nodes[node]);
      key.push_back(shardings.back().getAsOpaquePointer());
    }
  };
  add(edge.operands, operands);
  add(edge.results, results);
  auto [found, isNew] = known[number].try_emplace(std::move(key));
  if (isNew)
    found->second = computeOpSharding(*edge.rule, operands, results, graph.mesh);
  return found->second;
}

std::vector<ShardingAttr> EdgeShardings::getNodes() const {
  std::vector<ShardingAttr> nodes;
  for (unsigned node = 0; node < graph.nodes.size(); ++node)
    nodes.push_back(graph.getSharding(node));
  return nodes;
}

} // namespace parashard::sharding
