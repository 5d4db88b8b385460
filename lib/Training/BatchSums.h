// Finds the values of a graph that are sums over the samples of a batch.
#ifndef PARASHARD_LIB_TRAINING_BATCHSUMS_H
#define PARASHARD_LIB_TRAINING_BATCHSUMS_H

#include "dialects/ps/ShardingRule.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace parashard::training {

/// Follows the batch through the sharding rules of a block's ops, like data parallelism would.
/// Unlike data parallelism, the analysis needs no mesh, and the samples may be any part of a dim.
/// The batch is dim 0 of every function argument, unless the argument's `kBatchDimMark` names
/// another (-1: none).
class BatchSums {
public:
  explicit BatchSums(mlir::Block &block);

  /// Returns the number of samples if `value` is a sum over them, else 0. For two batches together,
  /// such a sum is the total of both batches' sums. Returns 0 for means, for values that depend on
  /// no sample and for values of a single sample.
  int64_t getSamples(mlir::Value value) const;
  /// Returns the dim of `value` whose major part is the samples. Returns `kNoBatch` if the value
  /// depends on no sample. Returns `kWholeBatch` if the value belongs to a whole batch, or if the
  /// samples are a minor part of a dim. For a batch of one sample, returns the first dim of size 1,
  /// or else dim 0.
  int64_t getBatchDim(mlir::Value value) const;
  /// Returns true if `value` depends on a batch of several samples in any way other than as their
  /// sum.
  bool isOtherThanSum(mlir::Value value) const;

private:
  /// Position of the samples in a list of dims, or of a dim's factors. Entry `index` has size
  /// `outer` * samples * anything. Example: samples in [T * B, H] are at {0, T}.
  struct Position {
    unsigned index = 0;
    int64_t outer = 1;
    bool operator==(const Position &) const = default;
  };
  /// How a value depends on the batch.
  struct State {
    enum class Kind {
      None, ///< not at all
      Rows, ///< the samples are part of a dim, at `position`
      Sum,  ///< sum of the samples' values
      Other
    };
    Kind kind = Kind::None;
    Position position;
    int64_t samples = 0;
  };

  static std::optional<Position> findFactor(const ps::ShardingRule &rule,
                                            const ps::TensorFactors &dims, Position position,
                                            int64_t samples);
  static std::optional<Position> findDim(const ps::ShardingRule &rule,
                                         const ps::TensorFactors &dims, Position position);
  State get(mlir::Value value) const { return states.lookup(value); }
  /// Sets the states of the op's results.
  void visit(mlir::Operation *op);
  /// Returns true if `value`, which depends on no sample, is the same for all samples at `position`
  /// of its dims.
  bool isSameForAllSamples(mlir::Value value, Position position, int64_t samples);
  bool computeSameForAllSamples(mlir::Value value, Position position, int64_t samples);
  /// Returns true if every operand that depends on no sample is the same for all samples at
  /// `position` of the rule's factors.
  bool areSameForAllSamples(mlir::Operation *op, const ps::ShardingRule &rule, Position position,
                            int64_t samples);
  /// Sets the results of an op whose batch-dependent operands all have kind `Rows`.
  void visitRows(mlir::Operation *op, int64_t samples);
  void setResults(mlir::Operation *op, State state);

  llvm::DenseMap<mlir::Value, State> states;
  /// Memoized results of `isSameForAllSamples`, by its arguments.
  llvm::DenseMap<std::tuple<mlir::Value, unsigned, int64_t, int64_t>, bool> sameForAllSamples;
};

} // namespace parashard::training

#endif
