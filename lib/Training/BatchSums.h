// Which values of a graph are sums over the samples of a batch.
#ifndef PARASHARD_LIB_TRAINING_BATCHSUMS_H
#define PARASHARD_LIB_TRAINING_BATCHSUMS_H

#include "dialects/ps/ShardingRule.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace parashard {

/// What the sharding rules of a block's ops say about its values when the batch is split: as with
/// data parallelism, but before there is a mesh and wherever in a dim the batch stands. The batch
/// is dim 0 of every argument of the function, or what its `kBatchDimMark` says (-1: none).
class BatchSums {
public:
  explicit BatchSums(mlir::Block &block);

  /// The number of samples that `value` adds up: that of two batches together is the sum of those
  /// of each. 0 for any other value: a mean, a value that knows no sample, one of a single sample.
  int64_t getSamples(mlir::Value value) const;
  /// The dim of `value` whose major part is the samples; `kNoBatch` where it depends on no sample,
  /// `kWholeBatch` where it is one of a batch, and where the samples are a minor part of a dim. A
  /// batch of one sample is taken to be the first dim of size 1, and dim 0 where there is none.
  int64_t getBatchDim(mlir::Value value) const;
  /// Whether `value` depends on a batch of several samples in another way than as a sum of theirs.
  bool isNoSum(mlir::Value value) const;

private:
  /// Where the samples stand in a list of dims, or of a dim's factors: entry `index` is `outer`
  /// times all samples, times anything. Example: samples in [T * B, H] are at {0, T}.
  struct Place {
    unsigned index = 0;
    int64_t outer = 1;
    bool operator==(const Place &) const = default;
  };
  /// How a value depends on the batch.
  struct State {
    enum class Kind {
      None, ///< not at all
      Rows, ///< the samples are a part of a dim: `place`
      Sum,  ///< of the samples' values
      Other
    };
    Kind kind = Kind::None;
    Place place;
    int64_t samples = 0;
  };

  static std::optional<Place> findFactor(const ps::ShardingRule &rule,
                                         const ps::TensorFactors &dims, Place place,
                                         int64_t samples);
  static std::optional<Place> findDim(const ps::ShardingRule &rule, const ps::TensorFactors &dims,
                                      Place place);
  State get(mlir::Value value) const { return states.lookup(value); }
  /// Sets the states of the op's results.
  void visit(mlir::Operation *op);
  /// Whether `value`, which knows no sample, is the same for all of them: it does not change with
  /// the samples that stand at `place` of its dims.
  bool isAlike(mlir::Value value, Place place, int64_t samples);
  bool computeAlike(mlir::Value value, Place place, int64_t samples);
  /// Whether each operand that knows no sample is the same for all of those that stand at `place`
  /// of the rule's factors.
  bool areAlike(mlir::Operation *op, const ps::ShardingRule &rule, Place place, int64_t samples);
  /// The results of an op whose only dependent operands have rows.
  void visitRows(mlir::Operation *op, int64_t samples);
  void setResults(mlir::Operation *op, State state);

  llvm::DenseMap<mlir::Value, State> states;
  /// Results of `isAlike`, by its arguments.
  llvm::DenseMap<std::tuple<mlir::Value, unsigned, int64_t, int64_t>, bool> alike;
};

} // namespace parashard

#endif
