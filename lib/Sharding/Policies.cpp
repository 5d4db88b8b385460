// Lists the sharding policies by name.
#include "lib/Sharding/Policy.h"
#include "llvm/ADT/STLExtras.h"

using namespace parashard::ps;

namespace parashard::sharding {
namespace {

Seeds useReplicated(ShardingGraph &graph, const costs::Cluster &) {
  Seeds seeds;
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    if (!node.variable || node.variable.getKind() != VariableKind::Parameter)
      continue;
    TensorSplits splits;
    for (int64_t size : node.shape)
      splits.push_back(wholeSplit(size));
    seeds.variables.push_back({unsigned(i), splits, "policy replicated"});
  }
  return seeds;
}
Seeds useMegatron(ShardingGraph &graph, const costs::Cluster &) {
  return {seedMegatron(graph), {}, {}};
}
Seeds useSequence(ShardingGraph &graph, const costs::Cluster &) {
  Seeds seeds{seedMegatron(graph), {}, {}};
  seeds.values = seedSequence(graph, seeds.variables);
  if (seeds.values.empty())
    seeds.unmatched = "no attention with split heads is followed by a row parallel contraction, "
                      "so sequences are not split (as with megatron)";
  return seeds;
}
Seeds useTables(ShardingGraph &graph, const costs::Cluster &) {
  Seeds seeds{seedTables(graph), {}, {}};
  if (seeds.variables.empty())
    seeds.unmatched = "no embedding table is indexed by an input; no parameter is split";
  return seeds;
}

// Minimizes the time. Among splits with about the same time, prefers those with less memory.
Seeds useFastest(ShardingGraph &graph, const costs::Cluster &cluster) {
  return searchSeeds(graph, cluster, /*memoryShare=*/0.02);
}
Seeds useLean(ShardingGraph &graph, const costs::Cluster &cluster) {
  return searchSeeds(graph, cluster, /*memoryShare=*/1);
}

constexpr Policy kPolicies[] = {
    {"megatron", /*readsOps=*/true, useMegatron},
    {"megatron+sp", /*readsOps=*/true, useSequence},
    {"replicated", /*readsOps=*/false, useReplicated},
    {"searched", /*readsOps=*/true, useFastest, /*isSearch=*/true},
    {"searched+memory", /*readsOps=*/true, useLean, /*isSearch=*/true},
    {"tables", /*readsOps=*/true, useTables},
};

} // namespace

const Policy *findPolicy(llvm::StringRef name) {
  const Policy *policy =
      llvm::find_if(kPolicies, [&](const Policy &each) { return each.name == name; });
  return policy == std::end(kPolicies) ? nullptr : policy;
}

bool isInlinePolicy(llvm::StringRef policy) { return policy.ltrim().starts_with("{"); }

std::string listPolicies() {
  std::string names;
  for (const Policy &policy : kPolicies)
    names += (names.empty() ? "" : ", ") + policy.name.str();
  return names + " or FILE.json";
}

} // namespace parashard::sharding
