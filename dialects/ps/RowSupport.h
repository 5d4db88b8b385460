// What the ops that work along the last dim share: host rows, row code, and rows split over ranks.
#ifndef PARASHARD_DIALECTS_PS_ROWSUPPORT_H
#define PARASHARD_DIALECTS_PS_ROWSUPPORT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// A shape as rows x columns: the columns are the last dim.
struct RowSpace {
  int64_t rows = 1;
  int64_t columns = 1;
  explicit RowSpace(mlir::RankedTensorType type);
};

/// The type that a row is computed in: f64 for f64, else f32.
mlir::Type getComputeType(mlir::Type elementOrShaped);

/// One parallel factor a dim, of which that of the columns is coupled; tensors of one dim less lack
/// the last. `shape` is the one with columns.
ShardingRule makeRowRule(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<bool> operandHasColumns,
                         llvm::ArrayRef<bool> resultHasColumns);

/// `value` (a scalar or vector) widened from a 16-bit float to f32, or rounded to `element`.
mlir::Value widen(ElementBuilder &e, mlir::Value value);
mlir::Value narrow(ElementBuilder &e, mlir::Value value, mlir::Type element);
/// A column in the compute type, and one narrowed to a result's element type.
RowBuilder::Column loadWide(RowBuilder &row, unsigned operand);

/// Builds, from primitive ops on local tensors, an op whose last dim is split over mesh axes.
class RowPartition {
public:
  /// `global`, `sharding`: of the tensor with columns.
  RowPartition(PartitionBuilder &builder, mlir::RankedTensorType global, ShardingAttr sharding);

  /// Whether the last dim is split at all.
  bool isSplit() const { return !axes.empty(); }
  /// Whether all columns are on this device, though padded.
  bool isOnOneDevice() const { return builder.getShards(axes) == 1; }
  int64_t getGlobalColumns() const { return global.getShape().back(); }

  /// The value in the compute type.
  mlir::Value widen(mlir::Value value);
  mlir::Value convert(mlir::Value value, mlir::Type elementType);
  /// A constant with `like`'s type.
  mlir::Value constant(mlir::Value like, double value);
  /// `value` with `identity` in the padded columns.
  mlir::Value select(mlir::Value value, double identity);
  /// Combines the columns of all ranks: one value a row.
  mlir::Value reduce(ReductionKind kind, mlir::Value value);
  /// A value a row, repeated along the columns of `like`.
  mlir::Value spread(mlir::Value row, mlir::Value like);
  /// The global column of each local place, as i64 of `like`'s shape.
  mlir::Value columns(mlir::Value like);

  template <typename Op> mlir::Value binary(mlir::Value x, mlir::Value y) {
    return builder.make<Op>(x.getType(), x, y).getResult();
  }
  template <typename Op> mlir::Value unary(mlir::Value x) {
    return builder.make<Op>(x.getType(), x).getResult();
  }
  mlir::Value compare(Predicate predicate, mlir::Value x, mlir::Value y);
  mlir::Value choose(mlir::Value condition, mlir::Value x, mlir::Value y);

private:
  PartitionBuilder &builder;
  mlir::RankedTensorType global;
  ShardingAttr sharding;
  llvm::SmallVector<mlir::StringAttr> axes;
};

} // namespace parashard::ps

#endif
