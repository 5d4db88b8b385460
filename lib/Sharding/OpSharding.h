// Computes how an op's factors are split. Propagation and the partitioner share this computation.
#ifndef PARASHARD_LIB_SHARDING_OPSHARDING_H
#define PARASHARD_LIB_SHARDING_OPSHARDING_H

#include "lib/Sharding/Split.h"

namespace parashard::sharding {

/// The splits and shardings with which an op runs on the mesh.
struct OpSharding {
  /// Split of each factor of the rule. May be empty if nothing is split.
  llvm::SmallVector<Split> factors;
  /// The sharding to which each operand must be resharded before the op; null if the operand is not
  /// a tensor.
  llvm::SmallVector<ps::ShardingAttr> operands;
  /// The shardings with which the op computes its results: partial over the axes of split reduction
  /// factors and of partial operands. The partitioner then reshards each result to its
  /// `ps.shardings`.
  llvm::SmallVector<ps::ShardingAttr> results;
};

/// Computes how an op runs (docs/levels/op-sharding.md). The choice does not depend on costs. Each
/// mesh axis is used at most once, by the first of these steps that applies to it:
///
/// 1. If exactly the operands of one linear group (`ShardingRule::linear`) are partial by sum over
///    an axis, the op runs on the partial operands, and its results are partial.
/// 2. A factor without a result dim is split over the axes that all operands with this factor have
///    in common. Split reduction factors make the results partial.
/// 3. A factor with a result dim is split as in the wanted sharding of the first result that has
///    the factor, without the axes used by steps 1 and 2.
///
/// Factors of kind `Whole` are not split. Every operand must then have exactly the splits of its
/// factors, and no partial axes except those of step 1. Example: the matmul of x [{dp}, {tp}] and w
/// [{tp}, {}], with the wanted sharding [{dp}, {}]. Step 2 splits the summed factor over tp, and
/// step 3 splits the rows over dp. The result is [{dp}, {}], partial over tp.
///
/// `operands` are the current shardings of the operands. `results` are the wanted shardings of the
/// results (`ps.shardings`). Null means replicated. The returned shardings are simplified.
OpSharding computeOpSharding(const ps::ShardingRule &rule,
                             llvm::ArrayRef<ps::ShardingAttr> operands,
                             llvm::ArrayRef<ps::ShardingAttr> results, const MeshShape &mesh);

/// Computes the sharding of `op` with its own rule. Does not build the rule if nothing is split.
/// The shardings of operands that are not tensors are null. `compute` returns the result for the
/// rule; if it is empty, the function above is called.
OpSharding
computeOpSharding(mlir::Operation *op, llvm::ArrayRef<ps::ShardingAttr> operands,
                  llvm::ArrayRef<ps::ShardingAttr> results, const MeshShape &mesh,
                  llvm::function_ref<OpSharding(const ps::ShardingRule &)> compute = nullptr);
/// Computes the sharding of `op` from the shardings of its operands and results in the IR. The op
/// must have a sharding rule.
OpSharding computeOpSharding(mlir::Operation *op, const MeshShape &mesh);

/// Returns true if no operand or result is split or partial: every rank runs the unchanged op.
bool isReplicated(mlir::Operation *op, const MeshShape &mesh);

/// Returns the dim sizes of a tensor of the rule.
llvm::SmallVector<int64_t> getShape(const ps::ShardingRule &rule, const ps::TensorFactors &tensor);
/// Derives the split of each factor of the rule from the splits of one tensor. Factors that the
/// tensor lacks are whole. Appends the axes that do not fit the boundaries of factors to `dropped`,
/// unless `dropped` is null.
llvm::SmallVector<Split>
projectToFactors(const ps::ShardingRule &rule, const ps::TensorFactors &tensor,
                 const TensorSplits &splits, const MeshShape &mesh,
                 llvm::SmallVectorImpl<mlir::StringAttr> *dropped = nullptr);
/// Derives the splits of a tensor's dims from the splits of the factors.
TensorSplits projectToTensor(const ps::ShardingRule &rule, const ps::TensorFactors &tensor,
                             llvm::ArrayRef<Split> factors, const MeshShape &mesh);

} // namespace parashard::sharding

#endif
