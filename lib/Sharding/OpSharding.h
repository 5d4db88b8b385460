// Which factor axes an op runs with: the one function that propagation and the partitioner share.
#ifndef PARASHARD_LIB_SHARDING_OPSHARDING_H
#define PARASHARD_LIB_SHARDING_OPSHARDING_H

#include "lib/Sharding/Split.h"

namespace parashard::ps {

/// How an op runs on the mesh.
struct OpSharding {
  /// Per factor of the rule, how it is split; empty where nothing is, whatever the rule.
  llvm::SmallVector<Split> factors;
  /// What each operand must be resharded to before the op (null: not a tensor).
  llvm::SmallVector<ShardingAttr> operands;
  /// What the op itself yields, partial over the axes of split reduction factors and of partial
  /// operands; the partitioner then makes of it what the result is marked with.
  llvm::SmallVector<ShardingAttr> results;
};

/// The algorithm (docs/levels.md, "How an op runs"), deterministic, with no cost in it; each mesh
/// axis is used once, by the first step that takes it:
/// 1. An axis over which all operands of a linear group are partial by sum, and no other operand
/// is,
///    stays: the op runs on the partial operands and its results are partial.
/// 2. A factor that no result has is split over the axes over which all operands that have it are
/// split alike.
///    Split reduction factors make the results partial.
/// 3. A factor that a result has is split as the mark of the first result that has it says.
/// Operands are then needed split by exactly these, and otherwise whole and not partial.
/// `operands` are what the operands have, `results` the marks; null is replicated. Shardings that
/// come back are simplified.
OpSharding computeOpSharding(const ShardingRule &rule, llvm::ArrayRef<ShardingAttr> operands,
                             llvm::ArrayRef<ShardingAttr> results, const MeshShape &mesh);

/// The same with the rule of `op`, which is not made where nothing is split. Null comes back for
/// what is not a tensor.
OpSharding computeOpSharding(mlir::Operation *op, llvm::ArrayRef<ShardingAttr> operands,
                             llvm::ArrayRef<ShardingAttr> results, const MeshShape &mesh);
/// The same, of an op as it is marked; `op` has a sharding rule.
OpSharding computeOpSharding(mlir::Operation *op, const MeshShape &mesh);

/// True when no operand or result is split or partial: the op runs as it is, on every rank.
bool isReplicated(mlir::Operation *op, const MeshShape &mesh);

/// Sizes of the dims of a tensor of the rule.
llvm::SmallVector<int64_t> getShape(const ShardingRule &rule, const TensorFactors &tensor);
/// The split of every factor of the rule as one tensor has it (whole where it lacks the factor).
llvm::SmallVector<Split>
projectToFactors(const ShardingRule &rule, const TensorFactors &tensor, const TensorSplits &splits,
                 const MeshShape &mesh, llvm::SmallVectorImpl<mlir::StringAttr> *dropped = nullptr);
/// The splits of a tensor's dims when the factors are split so.
TensorSplits projectToTensor(const ShardingRule &rule, const TensorFactors &tensor,
                             llvm::ArrayRef<Split> factors, const MeshShape &mesh);

} // namespace parashard::ps

#endif
