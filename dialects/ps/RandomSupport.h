// Numbers the elements of the global tensor. The number of an element determines its random number.
// The evaluator and the partitioner of random ops use these numbers.
#ifndef PARASHARD_DIALECTS_PS_RANDOMSUPPORT_H
#define PARASHARD_DIALECTS_PS_RANDOMSUPPORT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// Maps the local elements of a random op to their row-major indices in the global tensor.
struct ElementNumbers {
  int64_t globalSize = 0;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> sizes;   ///< local sizes of the factors, row-major; empty: one factor
  llvm::SmallVector<int64_t> strides; ///< global strides of the factors

  /// Returns the global element number of local element `i`.
  int64_t get(int64_t i) const;
};

/// Decides which elements dropout keeps.
class DropoutDraws {
public:
  /// Reads key, micro-batch, offset and factors from `op` (dropout or attention) and its operands.
  template <typename Op>
  static mlir::FailureOr<DropoutDraws> get(Op op, llvm::ArrayRef<Tensor> operands,
                                           const EvaluateContext &context, int64_t localSize,
                                           double p) {
    DropoutDraws draws;
    draws.active = op.getTraining() && context.training && p > 0;
    draws.p = p;
    if (!draws.active)
      return draws;
    draws.context = context;
    draws.numbers.globalSize = op.getGlobalSize() ? int64_t(*op.getGlobalSize()) : localSize;
    if (auto sizes = op.getFactorSizes())
      draws.numbers.sizes.assign(sizes->begin(), sizes->end());
    if (auto strides = op.getFactorStrides())
      draws.numbers.strides.assign(strides->begin(), strides->end());
    auto scalar = [&](mlir::Value value) {
      auto all = op->getOperands();
      return operands[llvm::find(all, value) - all.begin()].getInt(0);
    };
    if (op.getOffset())
      draws.numbers.offset = scalar(op.getOffset());
    if (op.getMicroBatch())
      draws.context.microBatch = scalar(op.getMicroBatch());
    if (op.getRandomKey())
      draws.key = scalar(op.getRandomKey());
    else if (auto key = op->template getAttrOfType<mlir::IntegerAttr>(kKeyMark))
      draws.key = key.getInt();
    else
      return op.emitOpError("draws random numbers but has neither a random key nor the mark ")
             << kKeyMark;
    return draws;
  }

  /// Returns 0 if local element `i` is dropped, else 1 / (1 - p). Returns 1 outside training.
  double scale(int64_t i) const;
  bool isActive() const { return active; }

private:
  bool active = false;
  double p = 0;
  int64_t key = 0;
  EvaluateContext context;
  ElementNumbers numbers;
};

/// Positions of the local elements of a sharded random op in the global tensor (see
/// `RandomPosition`).
struct SplitNumbers {
  mlir::Value offset; ///< tensor<i64>
  int64_t globalSize;
  llvm::SmallVector<int64_t> sizes, strides;
};
/// Returns the positions for a tensor of type `global` sharded by `sharding`.
SplitNumbers splitElementNumbers(PartitionBuilder &builder, mlir::RankedTensorType global,
                                 ShardingAttr sharding);

} // namespace parashard::ps

#endif
