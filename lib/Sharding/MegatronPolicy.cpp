// Implements the megatron policy: finds column and row parallel pairs in the graph.
#include "lib/Sharding/SeedBuilder.h"
#include "shared/Counts.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

namespace {
class MegatronFinder : SeedBuilder {
public:
  explicit MegatronFinder(const ShardingGraph &graph) : SeedBuilder(graph, "megatron") {}

  std::vector<Seed> run() {
    for (unsigned edge : structure.getForward())
      if (isa<AttentionOp>(graph.edges[edge].op))
        splitHeads(edge);
    warnOfFewHeads();
    for (unsigned edge : structure.getForward())
      if (structure.isContraction(edge))
        splitPair(edge);
    for (unsigned edge : structure.getForward())
      splitVocabulary(edge);
    return std::move(seeds);
  }

private:
  /// Chooses the factor along which the heads of an attention are split: the groups of heads, or
  /// the heads in each group. Chooses the groups, unless a split of the heads in each group gives
  /// fewer heads to the rank with the most heads. Example: 2 groups of 8 heads over 4 ranks are
  /// split by heads, which gives 4 heads per rank. A split by groups would give 8 heads on two
  /// ranks, and none on the others.
  unsigned chooseHeadFactor(const ShardingRule &rule) const {
    const DimFactors &heads = rule.operands[0][1];
    if (heads.size() < 2)
      return heads[0];
    int64_t groups = rule.factors[heads[0]].size, rest = rule.factors[heads[1]].size;
    int64_t byGroup = llvm::divideCeil(groups, shards) * rest;
    int64_t byRest = groups * llvm::divideCeil(rest, shards);
    return byRest < byGroup ? heads[1] : heads[0];
  }

  /// Warns once per number of heads, at the first attention with this number.
  void warnOfFewHeads() const {
    for (const auto &[heads, attentions] : fewHeads) {
      std::string divisors;
      for (int64_t divisor = 1; divisor <= heads; ++divisor)
        if (heads % divisor == 0)
          divisors += (divisors.empty() ? "" : ", ") + std::to_string(divisor);
      std::string more = attentions.size() == 1
                             ? ""
                             : llvm::formatv(" (and {0} more)", attentions.size() - 1).str();
      attentions.front()->emitWarning()
          << "attention" << more << " has " << heads << " heads to split over "
          << describeCount(shards, "rank") << " of "
          << mesh.listAxes([](AxisAttr axis) { return axis.getKind() == AxisKind::Tensor; }) << ": "
          << shards - heads
          << " ranks compute only padding; axis sizes that divide the number of heads are "
          << divisors;
    }
  }

  void splitHeads(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    unsigned heads = chooseHeadFactor(*edge.rule);
    SmallVector<Split> factors = makeWholeFactors(*edge.rule);
    factors[heads] = makeSplit(factors[heads][0].size, axes);
    SeedPlan columns;
    for (unsigned i = 0; i < 3; ++i)
      splitSources(edge.operands[i],
                   projectToTensor(*edge.rule, edge.rule->operands[i], factors, mesh), columns);
    if (columns.failed)
      return;
    std::string padding = describePadding("heads", edge.rule->factors[heads].size);
    commit(columns, "column parallel, heads of attention" + at(edge.op) + padding);
    if (int64_t size = edge.rule->factors[heads].size; size < shards)
      fewHeads[size].push_back(edge.op);
    SeedPlan rows;
    splitConsumers(edge.results[0],
                   projectToTensor(*edge.rule, edge.rule->results[0], factors, mesh), rows);
    if (!rows.failed)
      commit(rows, "row parallel, reads attention" + at(edge.op) + padding);
  }

  /// Follows a split value forward to contractions that sum over the split dim, and splits their
  /// weights.
  void splitConsumers(unsigned node, const TensorSplits &splits, SeedPlan &plan) {
    if (areWhole(splits) || !plan.visited.insert(node).second)
      return;
    for (unsigned number : graph.nodes[node].edges) {
      const ShardingEdge &edge = graph.edges[number];
      auto operand = llvm::find(edge.operands, int(node));
      if (!structure.isForward(number) || operand == edge.operands.end())
        continue;
      unsigned i = operand - edge.operands.begin();
      SmallVector<Split> factors =
          projectToFactors(*edge.rule, edge.rule->operands[i], splits, mesh);
      int weight = structure.getWeightOperand(number);
      if (weight >= 0 && weight != int(i))
        splitSources(edge.operands[weight],
                     projectToTensor(*edge.rule, edge.rule->operands[weight], factors, mesh), plan);
      else if (GraphStructure::isPassed(edge))
        for (auto [result, dims] : llvm::zip(edge.results, edge.rule->results))
          splitConsumers(result, projectToTensor(*edge.rule, dims, factors, mesh), plan);
    }
  }

  /// Splits a pair of contractions. `number` is the edge of the second contraction, which sums over
  /// the split factor. In the first contraction, the split factor is a result dim.
  void splitPair(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    unsigned weight = structure.getWeightOperand(number), activation = 1 - weight;
    for (const DimFactors &dim : edge.rule->operands[activation])
      for (unsigned factor : dim)
        if (edge.rule->factors[factor].kind == RuleFactor::Kind::Reduction &&
            edge.rule->factors[factor].size >= shards && trySplitPair(edge, factor, weight))
          return;
  }

  bool trySplitPair(const ShardingEdge &edge, unsigned factor, unsigned weight) {
    SmallVector<Split> factors = makeWholeFactors(*edge.rule);
    factors[factor] = makeSplit(factors[factor][0].size, axes);
    unsigned activation = 1 - weight;
    SeedPlan columns;
    splitSources(edge.operands[activation],
                 projectToTensor(*edge.rule, edge.rule->operands[activation], factors, mesh),
                 columns);
    if (columns.failed || columns.variables.empty() || !staysInside(columns))
      return false;
    SeedPlan rows;
    splitSources(edge.operands[weight],
                 projectToTensor(*edge.rule, edge.rule->operands[weight], factors, mesh), rows);
    if (rows.failed || rows.variables.empty())
      return false;
    for (auto &[variable, splits] : rows.variables)
      if (columns.variables.contains(variable))
        return false;
    std::string padding = describePadding("elements", edge.rule->factors[factor].size);
    commit(columns, "column parallel, first of a pair, the second" + at(edge.op) + padding);
    commit(rows, "row parallel, second of a pair" + padding);
    return true;
  }

  /// Returns true if the forward uses the visited activations only in elementwise ops, movements
  /// and contractions.
  bool staysInside(const SeedPlan &plan) const {
    for (unsigned node : plan.visited)
      for (unsigned number : graph.nodes[node].edges) {
        const ShardingEdge &edge = graph.edges[number];
        if (structure.isForward(number) && structure.dependsOnInput(node) &&
            llvm::is_contained(edge.operands, int(node)) && !GraphStructure::isPassed(edge) &&
            !structure.isContraction(number))
          return false;
      }
    return true;
  }

  void splitVocabulary(unsigned number) {
    auto loss = dyn_cast<CrossEntropyOp>(graph.edges[number].op);
    if (loss)
      splitOperand(number, loss.getLogits().getType().getRank() - 1, "vocabulary parallel");
    else
      splitTable(number, "vocabulary parallel");
  }

  /// Attentions whose split factor (heads or groups) is smaller than `shards`, by the size of this
  /// factor.
  std::map<int64_t, SmallVector<Operation *>> fewHeads;
};
} // namespace

std::vector<Seed> seedMegatron(const ShardingGraph &graph) {
  return graph.mesh.getAxes({AxisKind::Tensor}).empty() ? std::vector<Seed>()
                                                        : MegatronFinder(graph).run();
}

} // namespace parashard::sharding
