// Implements sequence parallelism: splits the values between a row parallel contraction and the
// next column parallel one along the sequence.
#include "lib/Sharding/GraphStructure.h"
#include "lib/Sharding/Policy.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

namespace {
/// Follows the query dim of each attention to the row parallel contraction that reads the result of
/// the attention.
class SequenceFinder {
public:
  SequenceFinder(const ShardingGraph &graph, ArrayRef<Seed> variables)
      : graph(graph), mesh(graph.mesh), structure(graph),
        axes(graph.mesh.getAxes({AxisKind::Tensor})) {
    for (const Seed &seed : variables)
      seeded.insert(seed.variable);
  }

  std::vector<LaterSeed> run() {
    for (unsigned number = 0; number < graph.edges.size(); ++number)
      if (structure.isOfModel(number) && isa<AttentionOp>(graph.edges[number].op))
        followQueries(number);
    return std::move(seeds);
  }

private:
  void followQueries(unsigned number) {
    const ShardingRule &rule = *graph.edges[number].rule;
    unsigned queries = rule.operands[0][2][0];
    if (rule.factors[queries].size < 2)
      return;
    SmallVector<Split> factors = makeWholeFactors(rule);
    factors[queries] = makeSplit(rule.factors[queries].size, axes);
    length = rule.factors[queries].size;
    follow(graph.edges[number].results[0], projectToTensor(rule, rule.results[0], factors, mesh));
  }

  void follow(unsigned node, const TensorSplits &splits) {
    if (areWhole(splits) || !visited.insert(node).second)
      return;
    for (unsigned number : graph.nodes[node].edges) {
      const ShardingEdge &edge = graph.edges[number];
      auto operand = llvm::find(edge.operands, int(node));
      if (!structure.isOfModel(number) || operand == edge.operands.end())
        continue;
      unsigned i = operand - edge.operands.begin();
      SmallVector<Split> factors =
          projectToFactors(*edge.rule, edge.rule->operands[i], splits, mesh);
      TensorSplits result = projectToTensor(*edge.rule, edge.rule->results[0], factors, mesh);
      int weight = structure.getWeightOperand(number);
      if (weight >= 0 && weight != int(i) && isSeeded(edge.operands[weight]))
        seed(edge.results[0], result);
      else if (GraphStructure::isPassed(edge))
        follow(edge.results[0], result);
    }
  }

  /// Returns true if one of the variables that a weight is computed from has a seed.
  bool isSeeded(unsigned node) const {
    int producer = structure.getProducer(node);
    if (producer < 0)
      return false;
    const ShardingEdge &edge = graph.edges[producer];
    if (edge.kind == ShardingEdge::Kind::Read)
      return seeded.contains(edge.operands[0]);
    return llvm::any_of(edge.operands,
                        [&](int operand) { return operand >= 0 && isSeeded(operand); });
  }

  void seed(unsigned node, const TensorSplits &splits) {
    if (areWhole(splits))
      return;
    int64_t shards = mesh.getShards(axes), padded = llvm::divideCeil(length, shards) * shards;
    std::string reason =
        llvm::formatv("megatron+sp: sequence of {0} split into {1} shards{2}", length, shards,
                      padded == length ? "" : ", padded to " + std::to_string(padded));
    seeds.push_back({node, splits, std::move(reason)});
  }

  const ShardingGraph &graph;
  const MeshShape &mesh;
  GraphStructure structure;
  SmallVector<StringAttr> axes;
  llvm::DenseSet<unsigned> seeded, visited;
  int64_t length = 0; ///< length of the current sequence
  std::vector<LaterSeed> seeds;
};
} // namespace

std::vector<LaterSeed> seedSequence(const ShardingGraph &graph, ArrayRef<Seed> variables) {
  if (graph.mesh.getAxes({AxisKind::Tensor}).empty())
    return {};
  return SequenceFinder(graph, variables).run();
}

} // namespace parashard::sharding
