// Which values of a graph are sums over the samples of a batch.
#ifndef PARASHARD_LIB_TRAINING_BATCHSUMS_H
#define PARASHARD_LIB_TRAINING_BATCHSUMS_H

#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

namespace parashard {

/// What the sharding rules of a block's ops say about its values when the batch is split: as with
/// data parallelism, but before there is a mesh. The batch is dim 0 of every argument of the
/// function, or what its `kBatchDimMark` says (-1: none).
class BatchSums {
public:
  explicit BatchSums(mlir::Block &block);

  /// The number of samples that `value` adds up: that of two batches together is the sum of those
  /// of each. 0 for any other value: a mean, a value that knows no sample, one of a single sample.
  int64_t getSamples(mlir::Value value) const;
  /// The dim of `value` whose major part is the samples; `kNoBatch` where it depends on no sample,
  /// `kWholeBatch` where it is one of a batch. A batch of one sample is taken to be the first dim of
  /// size 1, and dim 0 where there is none.
  int64_t getBatchDim(mlir::Value value) const;
  /// Whether `value` depends on a batch of several samples in another way than as a sum of theirs.
  bool isNoSum(mlir::Value value) const;

private:
  /// How a value depends on the batch.
  struct State {
    enum class Kind {
      None, ///< not at all
      Rows, ///< the samples are the major part of dim `dim`
      Sum,  ///< of the samples' values
      Other
    };
    Kind kind = Kind::None;
    unsigned dim = 0;
    int64_t samples = 0;
  };

  State get(mlir::Value value) const { return states.lookup(value); }
  /// Sets the states of the op's results.
  void visit(mlir::Operation *op);
  /// Whether `value`, which knows no sample, is the same for all of them: it does not change along
  /// the major part of its dim `dim`.
  bool isAlike(mlir::Value value, unsigned dim);
  bool computeAlike(mlir::Value value, unsigned dim);
  /// The results of an op whose only dependent operands have rows.
  void visitRows(mlir::Operation *op, int64_t samples);
  void setResults(mlir::Operation *op, State state);

  llvm::DenseMap<mlir::Value, State> states;
  llvm::DenseMap<std::pair<mlir::Value, unsigned>, bool> alike; ///< what `isAlike` has said
};

} // namespace parashard

#endif
