// Caches how ops run, so that equal ops of a model are computed only once.
#ifndef PARASHARD_LIB_SHARDING_OPSHARDINGCACHE_H
#define PARASHARD_LIB_SHARDING_OPSHARDINGCACHE_H

#include "lib/Sharding/OpSharding.h"
#include <map>

namespace parashard::sharding {

/// Caches the results of `computeOpSharding` for one mesh, by sharding rule and shardings. The
/// equal layers of a model have equal rules and shardings. The mesh must outlive this object.
class OpShardingCache {
public:
  explicit OpShardingCache(const MeshShape &mesh) : mesh(mesh) {}

  /// Returns the number of a rule. Rules that give equal results have equal numbers.
  unsigned getNumber(const ps::ShardingRule &rule);

  /// Returns the result of `computeOpSharding` for a rule with number `number`. The returned
  /// reference stays valid after later calls.
  const OpSharding &get(unsigned number, const ps::ShardingRule &rule,
                        llvm::ArrayRef<ps::ShardingAttr> operands,
                        llvm::ArrayRef<ps::ShardingAttr> results);

  /// Returns the result of `computeOpSharding` for an op.
  OpSharding get(mlir::Operation *op, llvm::ArrayRef<ps::ShardingAttr> operands,
                 llvm::ArrayRef<ps::ShardingAttr> results);

private:
  const MeshShape &mesh;
  /// By the factors and dims of the rule, as one list of integers.
  std::map<llvm::SmallVector<int64_t>, unsigned> numbers;
  /// By number of the rule, then by shardings.
  std::vector<std::map<llvm::SmallVector<const void *, 4>, OpSharding>> known;
};

} // namespace parashard::sharding

#endif
