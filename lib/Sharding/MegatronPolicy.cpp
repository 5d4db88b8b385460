// The megatron policy: column and row parallel pairs found from the graph's structure.
#include "lib/Sharding/Policy.h"
#include "lib/Sharding/Reasons.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace parashard::ps {

namespace {
/// Seeds that belong together: all of them hold, or none does.
struct Plan {
  llvm::MapVector<unsigned, TensorSplits> variables;
  llvm::DenseSet<unsigned> visited; ///< values
  bool failed = false;
};

class Finder {
public:
  explicit Finder(const ShardingGraph &graph) : graph(graph), mesh(graph.mesh) {
    axes = mesh.getAxes({AxisKind::Tensor});
    shards = mesh.getShards(axes);
    index();
  }

  std::vector<Seed> run() {
    if (axes.empty())
      return {};
    for (unsigned edge : forward)
      if (isa<AttentionOp>(graph.edges[edge].op))
        splitHeads(edge);
    for (unsigned edge : forward)
      if (isContraction(edge))
        splitPair(edge);
    for (unsigned edge : forward)
      splitVocabulary(edge);
    return std::move(seeds);
  }

private:
  // -- What the graph looks like ---------------------------------------------------------------

  static bool isPhase(Operation *op, bool evaluate) {
    auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
    if (!phase)
      return true;
    return phase.getValue() == (evaluate ? Phase::Evaluate : Phase::Forward);
  }

  /// Finds the forward ops (those of `@evaluate` when there are no others) and each value's
  /// producer.
  void index() {
    producer.assign(graph.nodes.size(), -1);
    dependsOnInput.assign(graph.nodes.size(), false);
    for (auto [i, node] : llvm::enumerate(graph.nodes))
      dependsOnInput[i] = isa_and_nonnull<BlockArgument>(node.value);
    for (auto [i, edge] : llvm::enumerate(graph.edges)) {
      if (edge.kind != ShardingEdge::Kind::Op && edge.kind != ShardingEdge::Kind::Read)
        continue;
      for (int result : edge.results) {
        producer[result] = i;
        for (int operand : edge.operands)
          dependsOnInput[result] =
              dependsOnInput[result] || (operand >= 0 && dependsOnInput[operand]);
      }
    }
    for (bool evaluate : {false, true}) {
      for (auto [i, edge] : llvm::enumerate(graph.edges))
        if (edge.kind == ShardingEdge::Kind::Op && isPhase(edge.op, evaluate) &&
            dependsOnAnInput(edge))
          forward.push_back(i);
      if (!forward.empty())
        break;
    }
    isForward.insert(forward.begin(), forward.end());
  }

  bool dependsOnAnInput(const ShardingEdge &edge) const {
    return llvm::any_of(edge.operands, [&](int node) { return node >= 0 && dependsOnInput[node]; });
  }

  bool isFloat(int node) const {
    return isa<FloatType>(getElementTypeOrSelf(graph.nodes[node].value.getType()));
  }

  /// The operand of a contraction that depends on variables alone, when the other does not.
  int getWeightOperand(unsigned number) const {
    const ShardingEdge &edge = graph.edges[number];
    if (edge.priority == 0 || edge.operands.size() != 2 || edge.operands[0] < 0 ||
        edge.operands[1] < 0 || !isFloat(edge.operands[0]) || !isFloat(edge.operands[1]))
      return -1;
    bool first = dependsOnInput[edge.operands[0]], second = dependsOnInput[edge.operands[1]];
    return first == second ? -1 : first ? 1 : 0;
  }

  bool isContraction(unsigned number) const { return getWeightOperand(number) >= 0; }

  /// Ops that do not mix elements along what is split.
  bool isPassed(const ShardingEdge &edge) const {
    auto lowering = dyn_cast<LoweringOpInterface>(edge.op);
    return lowering && (lowering.getLoweringKind() == LoweringKind::Elementwise ||
                        lowering.getLoweringKind() == LoweringKind::Movement);
  }

  bool areWhole(const TensorSplits &splits) const { return llvm::all_of(splits, isWhole); }

  SmallVector<Split> wholeFactors(const ShardingRule &rule) const {
    SmallVector<Split> factors;
    for (const RuleFactor &factor : rule.factors)
      factors.push_back(wholeSplit(factor.size));
    return factors;
  }

  // -- Walking up to the variables -------------------------------------------------------------

  /// Splits the variables that a value is made from so that it is split as `splits`; fails where
  /// that is not possible without communication.
  void splitSources(unsigned node, const TensorSplits &splits, Plan &plan) {
    if (plan.failed || areWhole(splits) || !plan.visited.insert(node).second)
      return;
    if (producer[node] < 0) {
      plan.failed = true;
      return;
    }
    const ShardingEdge &edge = graph.edges[producer[node]];
    if (edge.kind == ShardingEdge::Kind::Read)
      return splitVariable(edge.operands[0], splits, plan);
    auto result = llvm::find(edge.results, int(node)) - edge.results.begin();
    SmallVector<StringAttr> dropped;
    SmallVector<Split> factors =
        projectToFactors(*edge.rule, edge.rule->results[result], splits, mesh, &dropped);
    int weight = getWeightOperand(producer[node]);
    bool passes = isPassed(edge) || (!dependsOnInput[node]) || weight >= 0;
    if (!dropped.empty() || !passes || splitsWholeFactor(*edge.rule, factors)) {
      plan.failed = true;
      return;
    }
    for (auto [i, operand] : llvm::enumerate(edge.operands)) {
      if (operand < 0)
        continue;
      TensorSplits wanted = projectToTensor(*edge.rule, edge.rule->operands[i], factors, mesh);
      if (weight >= 0 && int(i) != weight && !areWhole(wanted))
        plan.failed = true; // a batch dim of the activation: no projection stands here
      else
        splitSources(operand, wanted, plan);
    }
  }

  bool splitsWholeFactor(const ShardingRule &rule, ArrayRef<Split> factors) const {
    for (auto [factor, split] : llvm::zip(rule.factors, factors))
      if (factor.kind == RuleFactor::Kind::Whole && !isWhole(split))
        return true;
    return false;
  }

  void splitVariable(unsigned variable, const TensorSplits &splits, Plan &plan) {
    const TensorSplits *present = nullptr;
    if (auto it = plan.variables.find(variable); it != plan.variables.end())
      present = &it->second;
    if (auto it = decided.find(variable); it != decided.end())
      present = &it->second;
    if (present && *present != splits)
      plan.failed = true;
    else
      plan.variables[variable] = splits;
  }

  void commit(const Plan &plan, const Twine &reason) {
    for (auto &[variable, splits] : plan.variables)
      if (decided.try_emplace(variable, splits).second)
        seeds.push_back({variable, splits, reason.str()});
  }

  // -- The three kinds of pairs ----------------------------------------------------------------

  std::string at(const ShardingEdge &edge) const {
    std::string where = describeLocation(edge.op->getLoc());
    return where.empty() ? where : " at " + where;
  }

  std::string describePadding(StringRef what, int64_t size) const {
    if (size % shards == 0)
      return {};
    return llvm::formatv("; {0} {1} over {2}: padded to {3}", size, what, shards,
                         llvm::divideCeil(size, shards) * shards)
        .str();
  }

  /// The factor of attention's heads to split: groups, unless splitting the heads of each group
  /// leaves less to the busiest rank.
  unsigned chooseHeadFactor(const ShardingRule &rule) const {
    const DimFactors &heads = rule.operands[0][1];
    if (heads.size() < 2)
      return heads[0];
    int64_t groups = rule.factors[heads[0]].size, rest = rule.factors[heads[1]].size;
    int64_t byGroup = llvm::divideCeil(groups, shards) * rest;
    int64_t byRest = groups * llvm::divideCeil(rest, shards);
    return byRest < byGroup ? heads[1] : heads[0];
  }

  void splitHeads(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    unsigned heads = chooseHeadFactor(*edge.rule);
    SmallVector<Split> factors = wholeFactors(*edge.rule);
    factors[heads] = makeSplit(factors[heads][0].size, axes);
    Plan columns;
    for (unsigned i = 0; i < 3; ++i)
      splitSources(edge.operands[i],
                   projectToTensor(*edge.rule, edge.rule->operands[i], factors, mesh), columns);
    if (columns.failed)
      return;
    std::string padding = describePadding("heads", edge.rule->factors[heads].size);
    commit(columns, "megatron: column parallel, heads of attention" + at(edge) + padding);
    Plan rows;
    splitConsumers(edge.results[0],
                   projectToTensor(*edge.rule, edge.rule->results[0], factors, mesh), rows);
    if (!rows.failed)
      commit(rows, "megatron: row parallel, takes attention" + at(edge) + padding);
  }

  /// Follows a split value down to contractions that sum over what is split, and splits their
  /// weights.
  void splitConsumers(unsigned node, const TensorSplits &splits, Plan &plan) {
    if (areWhole(splits) || !plan.visited.insert(node).second)
      return;
    for (unsigned number : graph.nodes[node].edges) {
      const ShardingEdge &edge = graph.edges[number];
      auto operand = llvm::find(edge.operands, int(node));
      if (!isForward.contains(number) || operand == edge.operands.end())
        continue;
      unsigned i = operand - edge.operands.begin();
      SmallVector<Split> factors =
          projectToFactors(*edge.rule, edge.rule->operands[i], splits, mesh);
      int weight = getWeightOperand(number);
      if (weight >= 0 && weight != int(i))
        splitSources(edge.operands[weight],
                     projectToTensor(*edge.rule, edge.rule->operands[weight], factors, mesh), plan);
      else if (isPassed(edge))
        for (auto [result, dims] : llvm::zip(edge.results, edge.rule->results))
          splitConsumers(result, projectToTensor(*edge.rule, dims, factors, mesh), plan);
    }
  }

  /// Seen from the second contraction: what it sums over is what the first yields.
  void splitPair(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    unsigned weight = getWeightOperand(number), activation = 1 - weight;
    for (const DimFactors &dim : edge.rule->operands[activation])
      for (unsigned factor : dim)
        if (edge.rule->factors[factor].kind == RuleFactor::Kind::Reduction &&
            edge.rule->factors[factor].size >= shards && trySplitPair(edge, factor, weight))
          return;
  }

  bool trySplitPair(const ShardingEdge &edge, unsigned factor, unsigned weight) {
    SmallVector<Split> factors = wholeFactors(*edge.rule);
    factors[factor] = makeSplit(factors[factor][0].size, axes);
    unsigned activation = 1 - weight;
    Plan columns;
    splitSources(edge.operands[activation],
                 projectToTensor(*edge.rule, edge.rule->operands[activation], factors, mesh),
                 columns);
    if (columns.failed || columns.variables.empty() || !staysInside(columns))
      return false;
    Plan rows;
    splitSources(edge.operands[weight],
                 projectToTensor(*edge.rule, edge.rule->operands[weight], factors, mesh), rows);
    if (rows.failed || rows.variables.empty())
      return false;
    for (auto &[variable, splits] : rows.variables)
      if (columns.variables.count(variable))
        return false;
    std::string padding = describePadding("places", edge.rule->factors[factor].size);
    commit(columns, "megatron: column parallel, first of a pair, the second" + at(edge) + padding);
    commit(rows, "megatron: row parallel, second of a pair" + padding);
    return true;
  }

  /// True when what the first contractions yield is used by passed ops and contractions alone.
  bool staysInside(const Plan &plan) const {
    for (unsigned node : plan.visited)
      for (unsigned number : graph.nodes[node].edges) {
        const ShardingEdge &edge = graph.edges[number];
        if (isForward.contains(number) && dependsOnInput[node] &&
            llvm::is_contained(edge.operands, int(node)) && !isPassed(edge) &&
            !isContraction(number))
          return false;
      }
    return true;
  }

  void splitVocabulary(unsigned number) {
    const ShardingEdge &edge = graph.edges[number];
    unsigned operand = 0, dim = 0;
    if (auto loss = dyn_cast<CrossEntropyOp>(edge.op))
      dim = loss.getLogits().getType().getRank() - 1;
    else if (!isa<EmbeddingOp>(edge.op) || dependsOnInput[edge.operands[0]])
      return;
    SmallVector<Split> factors = wholeFactors(*edge.rule);
    unsigned factor = edge.rule->operands[operand][dim][0];
    factors[factor] = makeSplit(factors[factor][0].size, axes);
    Plan plan;
    splitSources(edge.operands[operand],
                 projectToTensor(*edge.rule, edge.rule->operands[operand], factors, mesh), plan);
    if (!plan.failed)
      commit(plan, "megatron: vocabulary parallel" + at(edge) +
                       describePadding("rows", edge.rule->factors[factor].size));
  }

  const ShardingGraph &graph;
  const MeshShape &mesh;
  SmallVector<StringAttr> axes;
  int64_t shards = 1;
  std::vector<int> producer;
  std::vector<bool> dependsOnInput;
  std::vector<unsigned> forward;
  llvm::DenseSet<unsigned> isForward;
  llvm::DenseMap<unsigned, TensorSplits> decided;
  std::vector<Seed> seeds;
};
} // namespace

std::vector<Seed> seedMegatron(const ShardingGraph &graph) { return Finder(graph).run(); }

} // namespace parashard::ps
