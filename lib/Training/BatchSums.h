// Declares an analysis that finds sums over the samples of a batch.
#ifndef PARASHARD_LIB_TRAINING_BATCHSUMS_H
#define PARASHARD_LIB_TRAINING_BATCHSUMS_H

#include "dialects/ps/ShardingRule.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace parashard::training {

/// Follows the batch dim through the sharding rules of a block's ops, as propagation does for data
/// parallelism, but without a mesh. The samples may be a factor of a dim. The batch dim of a
/// function argument is dim 0, or `ps.batch_dim` (-1: no batch dim).
class BatchSums {
public:
  explicit BatchSums(mlir::Block &block);

  /// Returns the number of samples if `value` is a sum over samples: the values of two batches then
  /// add up to the value of both batches together. Returns 0 for other values, such as means, and
  /// for a batch of one sample.
  int64_t getSamples(mlir::Value value) const;
  /// Returns the dim of `value` whose outermost factor is the samples. In other cases, returns:
  /// - `kNoBatch` if `value` does not depend on samples;
  /// - `kWholeBatch` if the samples are an inner factor of a dim, if `value` combines several
  ///   samples, or if it is a scalar that combines a batch of one sample;
  /// - the first dim of size 1, else dim 0, of any other tensor that combines a batch of one
  ///   sample. Example: the mean over dim 0 of [1, 8], with dim 0 kept.
  int64_t getBatchDim(mlir::Value value) const;
  /// Returns true if `value` depends on a batch of several samples and is not a sum over samples.
  bool isOtherThanSum(mlir::Value value) const;

private:
  /// Position of the samples in a tensor's dims or in a rule's factors. Dim or factor `index` has
  /// the size `outer` * samples * (any number). Example: the B samples in dims [T * B, H] are at
  /// {0, T}.
  struct Position {
    unsigned index = 0;
    int64_t outer = 1;
    bool operator==(const Position &) const = default;
  };
  /// How a value depends on the batch.
  struct State {
    enum class Kind {
      None, ///< does not depend on the batch
      Rows, ///< the samples are a factor of a dim, at `position`
      Sum,  ///< sum over the samples
      Other ///< depends on the batch in another way
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
  /// Sets the states of an op's results.
  void visit(mlir::Operation *op);
  /// Returns true if a value that does not depend on the batch has the same elements for all
  /// samples (the factor at `position` of its dims). Example: a bias that is broadcast over the
  /// batch.
  bool isSameForAllSamples(mlir::Value value, Position position, int64_t samples);
  bool computeSameForAllSamples(mlir::Value value, Position position, int64_t samples);
  /// Returns true if `isSameForAllSamples` holds for every operand that does not depend on the
  /// batch. `position` is in the rule's factors.
  bool areSameForAllSamples(mlir::Operation *op, const ps::ShardingRule &rule, Position position,
                            int64_t samples);
  /// Sets the states of the results of an op whose batch-dependent operands all have kind `Rows`.
  void visitRows(mlir::Operation *op, int64_t samples);
  void setResults(mlir::Operation *op, State state);

  llvm::DenseMap<mlir::Value, State> states;
  /// Results of earlier calls of `isSameForAllSamples`, by its arguments.
  llvm::DenseMap<std::tuple<mlir::Value, unsigned, int64_t, int64_t>, bool> sameForAllSamples;
};

} // namespace parashard::training

#endif
