// Caches how ops run, so that equal ops of a model are computed only once.
#include "lib/Sharding/OpShardingCache.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

/// Returns everything of a rule that `computeOpSharding` reads, as one list of integers.
static SmallVector<int64_t> flatten(const ShardingRule &rule) {
  SmallVector<int64_t> list{int64_t(rule.factors.size())};
  for (const RuleFactor &factor : rule.factors)
    list.append({factor.size, int64_t(factor.kind), int64_t(factor.reduction)});
  auto append = [&](const auto &numbers) {
    list.push_back(int64_t(numbers.size()));
    list.append(numbers.begin(), numbers.end());
  };
  for (ArrayRef<TensorFactors> tensors :
       {ArrayRef<TensorFactors>(rule.operands), ArrayRef<TensorFactors>(rule.results)}) {
    list.push_back(int64_t(tensors.size()));
    for (const TensorFactors &tensor : tensors) {
      list.push_back(int64_t(tensor.size()));
      for (const DimFactors &dim : tensor)
        append(dim);
    }
  }
  for (const auto &group : rule.linear)
    append(group);
  return list;
}

unsigned OpShardingCache::getNumber(const ShardingRule &rule) {
  auto [found, isNew] = numbers.try_emplace(flatten(rule), known.size());
  if (isNew)
    known.emplace_back();
  return found->second;
}

const OpSharding &OpShardingCache::get(unsigned number, const ShardingRule &rule,
                                       ArrayRef<ShardingAttr> operands,
                                       ArrayRef<ShardingAttr> results) {
  SmallVector<const void *, 4> key;
  for (ArrayRef<ShardingAttr> shardings : {operands, results})
    for (ShardingAttr sharding : shardings)
      key.push_back(sharding.getAsOpaquePointer());
  auto [found, isNew] = known[number].try_emplace(std::move(key));
  if (isNew)
    found->second = computeOpSharding(rule, operands, results, mesh);
  return found->second;
}

OpSharding OpShardingCache::get(Operation *op, ArrayRef<ShardingAttr> operands,
                                ArrayRef<ShardingAttr> results) {
  return computeOpSharding(op, operands, results, mesh, [&](const ShardingRule &rule) {
    return get(getNumber(rule), rule, operands, results);
  });
}

} // namespace parashard::sharding
