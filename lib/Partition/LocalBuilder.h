// The partitioner's side of an op's `partition`: shard indices, padding, collectives.
#ifndef PARASHARD_LIB_PARTITION_LOCALBUILDER_H
#define PARASHARD_LIB_PARTITION_LOCALBUILDER_H

#include "lib/Sharding/OpSharding.h"
#include "llvm/ADT/DenseSet.h"

namespace parashard::ps {

/// Builds local ops for one global op after the other; every op it creates takes the marks of the
/// op that it serves.
class LocalBuilder : public PartitionBuilder, mlir::OpBuilder::Listener {
public:
  LocalBuilder(const MeshShape &mesh, mlir::Block *block);

  /// From now on serves `op`, which runs as `sharding` says (null: it has no rule).
  void serve(mlir::Operation *op, const OpSharding *sharding);
  /// What collectives created from now on are for, until `serve` is called.
  void because(const llvm::Twine &newWhat, const llvm::Twine &newWhy);

  mlir::Location getLoc() const override { return op->getLoc(); }
  ShardingAttr getOperandSharding(unsigned i) const override { return sharding->operands[i]; }
  ShardingAttr getResultSharding(unsigned i) const override { return sharding->results[i]; }
  mlir::RankedTensorType getOperandType(unsigned i) const override;
  mlir::RankedTensorType getResultType(unsigned i) const override;
  int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const override;
  int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const override;
  mlir::ArrayAttr getDeviceAxes(llvm::ArrayRef<mlir::StringAttr> axes) const override;
  mlir::Value getShardIndex(llvm::ArrayRef<mlir::StringAttr> axes) override;
  mlir::Value allReduce(mlir::Value value, ReductionKind kind,
                        llvm::ArrayRef<mlir::StringAttr> axes) override;
  mlir::Value getGlobalIndices(mlir::RankedTensorType global, ShardingAttr sharding,
                               unsigned dim) override;
  mlir::Value selectPadding(mlir::Value local, mlir::RankedTensorType global, ShardingAttr sharding,
                            unsigned dim, double identity) override;
  void setZeroPadded(mlir::Value local, unsigned dim) override { zeroPadded.insert({local, dim}); }

  /// Whether a dim of it is known to be zero in its padding, so that `selectPadding` leaves it.
  bool isZeroPadded(mlir::Value local) const;
  /// Whether some places of a tensor laid out so hold no element.
  bool hasPadding(mlir::RankedTensorType global, mlir::RankedTensorType local,
                  ShardingAttr sharding) const;
  /// Puts zero in all padded places of a value.
  mlir::Value zeroPadding(mlir::Value local, mlir::RankedTensorType global, ShardingAttr sharding);

private:
  void notifyOperationInserted(mlir::Operation *inserted, InsertPoint) override;
  mlir::Value constant(mlir::RankedTensorType type, double value);
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// The index within factor `n` of each local place of a dim split so, as tensor<Nxi64>.
  mlir::Value getFactorIndices(const Split &split, unsigned n);
  /// Which local places of a dim hold elements (not padding), as tensor<Nxi1>; null when all do.
  mlir::Value getValid(const Split &split);

  /// Whether the padded places along `dim` are zero: by what was said of it, or of what it is made
  /// of.
  bool isZeroPadded(mlir::Value local, unsigned dim) const;

  const MeshShape &mesh;
  mlir::Operation *op = nullptr;
  const OpSharding *sharding = nullptr;
  std::string what, why;
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> zeroPadded;
};

} // namespace parashard::ps

#endif
