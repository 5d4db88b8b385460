// Builds local ops for the `partition` methods of ops: shard indices, padding and collectives.
#ifndef PARASHARD_LIB_PARTITION_LOCALBUILDER_H
#define PARASHARD_LIB_PARTITION_LOCALBUILDER_H

#include "lib/Sharding/OpSharding.h"
#include "llvm/ADT/DenseSet.h"

namespace parashard::partition {

/// Builds the local ops of one global op after another. Every created op gets the phase, segment
/// and origin of the global op.
class LocalBuilder : public ps::PartitionBuilder, mlir::OpBuilder::Listener {
public:
  LocalBuilder(const sharding::MeshShape &mesh, mlir::Block *block);

  /// Starts building local ops for `op`. `sharding` is how `op` runs; null if `op` has no sharding
  /// rule.
  void serve(mlir::Operation *op, const sharding::OpSharding *sharding);
  /// Sets the cause that `ps.cause` records on the following collectives, until the next `serve`.
  /// The default is "inside OP", "partial results are combined".
  void setReshardCause(const llvm::Twine &newSubject, const llvm::Twine &newReason);

  mlir::Location getLoc() const override { return op->getLoc(); }
  ps::ShardingAttr getOperandSharding(unsigned i) const override { return sharding->operands[i]; }
  ps::ShardingAttr getResultSharding(unsigned i) const override { return sharding->results[i]; }
  mlir::RankedTensorType getOperandType(unsigned i) const override;
  mlir::RankedTensorType getResultType(unsigned i) const override;
  int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const override;
  int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const override;
  mlir::ArrayAttr getDeviceAxes(llvm::ArrayRef<mlir::StringAttr> axes) const override;
  mlir::Value getShardIndex(llvm::ArrayRef<mlir::StringAttr> axes) override;
  mlir::Value allReduce(mlir::Value value, ps::ReductionKind kind,
                        llvm::ArrayRef<mlir::StringAttr> axes) override;
  mlir::Value getGlobalIndices(mlir::RankedTensorType global, ps::ShardingAttr sharding,
                               unsigned dim) override;
  mlir::Value selectPadding(mlir::Value local, mlir::RankedTensorType global,
                            ps::ShardingAttr sharding, unsigned dim, double identity) override;
  void setZeroPadded(mlir::Value local, unsigned dim) override { zeroPadded.insert({local, dim}); }

  /// Returns true if the op that produces the value is known to set the padding of at least one dim
  /// to zero.
  bool isZeroPadded(mlir::Value local) const;
  /// Returns true if a tensor with this sharding has padding.
  bool hasPadding(mlir::RankedTensorType global, mlir::RankedTensorType local,
                  ps::ShardingAttr sharding) const;
  /// Sets all padding of a value to zero.
  mlir::Value zeroPadding(mlir::Value local, mlir::RankedTensorType global,
                          ps::ShardingAttr sharding);

private:
  void notifyOperationInserted(mlir::Operation *inserted, InsertPoint) override;
  mlir::Value constant(mlir::RankedTensorType type, double value);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Returns, for each of the N local elements of a split dim, its index in factor number `n`, as
  /// tensor<Nxi64>.
  mlir::Value getFactorIndices(const sharding::Split &split, unsigned n);
  /// Returns a mask of the N local elements of a dim as tensor<Nxi1>: true for elements that are
  /// not padding. Returns null if the dim has no padding.
  mlir::Value getValid(const sharding::Split &split);

  /// Returns true if the padding along `dim` is known to be zero, from `setZeroPadded` or from the
  /// producer of the value.
  bool isZeroPadded(mlir::Value local, unsigned dim) const;

  const sharding::MeshShape &mesh;
  mlir::Operation *op = nullptr;
  const sharding::OpSharding *sharding = nullptr;
  std::string subject, reason;
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> zeroPadded;
};

} // namespace parashard::partition

#endif
