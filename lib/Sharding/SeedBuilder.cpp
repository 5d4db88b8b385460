// Implements the base of policies that split variables over the tensor axes.
#include "lib/Sharding/SeedBuilder.h"
#include "lib/Sharding/Reasons.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

SeedBuilder::SeedBuilder(const ShardingGraph &graph, StringRef policy)
    : graph(graph), mesh(graph.mesh), structure(graph),
      axes(graph.mesh.getAxes({AxisKind::Tensor})), shards(graph.mesh.getShards(axes)),
      policy(policy) {}

void SeedBuilder::splitSources(unsigned node, const TensorSplits &splits, SeedPlan &plan) {
  if (plan.failed || areWhole(splits) || !plan.visited.insert(node).second)
    return;
  int producer = structure.getProducer(node);
  if (producer < 0) {
    plan.failed = true;
    return;
  }
  const ShardingEdge &edge = graph.edges[producer];
  if (edge.kind == ShardingEdge::Kind::Read)
    return splitVariable(edge.operands[0], splits, plan);
  auto result = llvm::find(edge.results, int(node)) - edge.results.begin();
  SmallVector<StringAttr> dropped;
  SmallVector<Split> factors =
      projectToFactors(*edge.rule, edge.rule->results[result], splits, mesh, &dropped);
  int weight = structure.getWeightOperand(producer);
  bool passes = GraphStructure::isPassed(edge) || !structure.dependsOnInput(node) || weight >= 0;
  if (!dropped.empty() || !passes || splitsWholeFactor(*edge.rule, factors)) {
    plan.failed = true;
    return;
  }
  for (auto [i, operand] : llvm::enumerate(edge.operands)) {
    if (operand < 0)
      continue;
    TensorSplits wanted = projectToTensor(*edge.rule, edge.rule->operands[i], factors, mesh);
    if (weight >= 0 && int(i) != weight && !areWhole(wanted))
      plan.failed = true; // the split of the value also needs a split of the other operand
    else
      splitSources(operand, wanted, plan);
  }
}

bool SeedBuilder::splitsWholeFactor(const ShardingRule &rule, ArrayRef<Split> factors) const {
  for (auto [factor, split] : llvm::zip(rule.factors, factors))
    if (factor.kind == RuleFactor::Kind::Whole && !isWhole(split))
      return true;
  return false;
}

void SeedBuilder::splitVariable(unsigned variable, const TensorSplits &splits, SeedPlan &plan) {
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

void SeedBuilder::commit(const SeedPlan &plan, const Twine &reason) {
  for (auto &[variable, splits] : plan.variables)
    if (decided.try_emplace(variable, splits).second)
      seeds.push_back({variable, splits, (policy + ": " + reason).str()});
}

void SeedBuilder::splitOperand(unsigned number, unsigned dim, StringRef reason) {
  const ShardingEdge &edge = graph.edges[number];
  const auto &dims = edge.rule->operands[0];
  SmallVector<Split> factors = makeWholeFactors(*edge.rule);
  unsigned factor = dims[dim][0];
  factors[factor] = makeSplit(factors[factor][0].size, axes);
  SeedPlan plan;
  splitSources(edge.operands[0], projectToTensor(*edge.rule, dims, factors, mesh), plan);
  if (!plan.failed)
    commit(plan, reason + at(edge.op) + describePadding("rows", edge.rule->factors[factor].size));
}

void SeedBuilder::splitTable(unsigned number, StringRef reason) {
  const ShardingEdge &edge = graph.edges[number];
  if (isa<EmbeddingOp>(edge.op) && !structure.dependsOnInput(edge.operands[0]))
    splitOperand(number, 0, reason);
}

std::string SeedBuilder::at(Operation *op) {
  std::string where = describeLocation(op->getLoc());
  return where.empty() ? where : " at " + where;
}

std::string SeedBuilder::describePadding(StringRef noun, int64_t size) const {
  if (size % shards == 0)
    return {};
  return llvm::formatv("; {0} {1} are padded to {2} for {3} shards", size, noun,
                       llvm::divideCeil(size, shards) * shards, shards)
      .str();
}

} // namespace parashard::sharding
