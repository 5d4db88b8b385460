// Caches the shardings of a graph's nodes, and how its ops run under them.
#include "lib/Sharding/EdgeShardings.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

EdgeShardings::EdgeShardings(const ShardingGraph &graph)
    : graph(graph), cache(graph.mesh), last(graph.nodes.size()) {
  for (const ShardingEdge &edge : graph.edges)
    rules.push_back(cache.getNumber(*edge.rule));
}

const OpSharding &EdgeShardings::get(unsigned number, ArrayRef<ShardingAttr> nodes) {
  const ShardingEdge &edge = graph.edges[number];
  SmallVector<ShardingAttr, 4> operands, results;
  for (int node : edge.operands)
    operands.push_back(node < 0 ? ShardingAttr() : nodes[node]);
  for (int node : edge.results)
    results.push_back(node < 0 ? ShardingAttr() : nodes[node]);
  return cache.get(rules[number], *edge.rule, operands, results);
}

std::vector<ShardingAttr> EdgeShardings::getNodes() {
  std::vector<ShardingAttr> nodes;
  nodes.reserve(graph.nodes.size());
  for (unsigned node = 0; node < graph.nodes.size(); ++node)
    nodes.push_back(getNode(node));
  return nodes;
}

ShardingAttr EdgeShardings::getNode(unsigned number) {
  const ShardingNode &node = graph.nodes[number];
  NodeSharding &known = last[number];
  if (!known.sharding || known.splits != node.splits || known.partial != node.partial)
    known = {node.splits, node.partial, graph.getSharding(number)};
  return known.sharding;
}

} // namespace parashard::sharding
