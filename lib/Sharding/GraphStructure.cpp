// Finds the op that computes each value, the ops of the forward, and the weight operands of
// contractions. Within a function, edges are in program order, so each edge comes after the
// producers of its operands.
#include "lib/Sharding/GraphStructure.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

/// Returns true if the op has the phase `wanted`, or no phase. From level `training` on, every op
/// has a phase. Before this level, an op may belong to any phase.
static bool mayBeInPhase(Operation *op, Phase wanted) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return !phase || phase.getValue() == wanted;
}

GraphStructure::GraphStructure(const ShardingGraph &graph)
    : graph(graph), inForward(graph.edges.size()), ofModel(graph.edges.size()) {
  findProducers();
  std::vector<unsigned> evaluated;
  for (auto [i, edge] : llvm::enumerate(graph.edges)) {
    if (edge.kind != ShardingEdge::Kind::Op || !takesInput(edge))
      continue;
    if (mayBeInPhase(edge.op, Phase::Forward))
      forward.push_back(i);
    if (mayBeInPhase(edge.op, Phase::Evaluate))
      evaluated.push_back(i);
  }
  for (unsigned edge : forward)
    ofModel[edge] = true;
  for (unsigned edge : evaluated)
    ofModel[edge] = true;
  if (forward.empty())
    forward = std::move(evaluated);
  for (unsigned edge : forward)
    inForward[edge] = true;
}

void GraphStructure::findProducers() {
  producer.assign(graph.nodes.size(), -1);
  for (const ShardingNode &node : graph.nodes)
    fromInput.push_back(isa_and_nonnull<BlockArgument>(node.value));
  for (auto [i, edge] : llvm::enumerate(graph.edges)) {
    if (edge.kind != ShardingEdge::Kind::Op && edge.kind != ShardingEdge::Kind::Read)
      continue;
    for (int result : edge.results) {
      producer[result] = i;
      fromInput[result] = fromInput[result] || takesInput(edge);
    }
  }
}

bool GraphStructure::takesInput(const ShardingEdge &edge) const {
  return llvm::any_of(edge.operands, [&](int node) { return node >= 0 && fromInput[node]; });
}

int GraphStructure::getWeightOperand(unsigned number) const {
  const ShardingEdge &edge = graph.edges[number];
  auto isFloat = [&](int node) {
    return isa<FloatType>(getElementTypeOrSelf(graph.nodes[node].value.getType()));
  };
  if (edge.priority == 0 || edge.operands.size() != 2 || edge.operands[0] < 0 ||
      edge.operands[1] < 0 || !isFloat(edge.operands[0]) || !isFloat(edge.operands[1]))
    return -1;
  bool first = fromInput[edge.operands[0]], second = fromInput[edge.operands[1]];
  return first == second ? -1 : first ? 1 : 0;
}

bool GraphStructure::isPassed(const ShardingEdge &edge) {
  auto lowering = dyn_cast<LoweringOpInterface>(edge.op);
  return lowering && (lowering.getLoweringKind() == LoweringKind::Elementwise ||
                      lowering.getLoweringKind() == LoweringKind::Movement);
}

bool areWhole(const TensorSplits &splits) { return llvm::all_of(splits, isWhole); }

SmallVector<Split> makeWholeFactors(const ShardingRule &rule) {
  SmallVector<Split> factors;
  for (const RuleFactor &factor : rule.factors)
    factors.push_back(wholeSplit(factor.size));
  return factors;
}

} // namespace parashard::sharding
