// Declares helpers for ops that work along the last dim, such as softmax. Some generate the code of
// a row. `RowPartition` partitions ops whose last dim is sharded.
#ifndef PARASHARD_DIALECTS_PS_ROWSUPPORT_H
#define PARASHARD_DIALECTS_PS_ROWSUPPORT_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// A shape as rows x columns. The last dim gives the columns.
struct RowSpace {
  int64_t rows = 1;
  int64_t columns = 1;
  explicit RowSpace(mlir::RankedTensorType type);
};

/// Returns the type in which rows are computed: f64 for f64, else f32.
mlir::Type getComputeType(mlir::Type elementOrShaped);

/// Returns a rule with one parallel factor per dim of `shape`. The factor of the columns is coupled
/// (`isCoupled`): the elements of a row depend on each other. Operands and results without columns
/// lack the last dim.
ShardingRule makeRowRule(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<bool> operandHasColumns,
                         llvm::ArrayRef<bool> resultHasColumns);

/// Extends a float to its compute type (`getComputeType`). The value is a scalar or a vector.
mlir::Value widen(ElementBuilder &e, mlir::Value value);
/// Converts a float to `element`, which may be narrower or wider. The value is a scalar or a
/// vector.
mlir::Value narrow(ElementBuilder &e, mlir::Value value, mlir::Type element);
/// Returns a function that loads the current column of the operand and converts it to the compute
/// type.
RowBuilder::Column loadWide(RowBuilder &row, unsigned operand);

/// Builds an op whose last dim is sharded over mesh axes, from primitive ops on local tensors.
class RowPartition {
public:
  /// `global` and `sharding` describe the operand that has columns.
  RowPartition(PartitionBuilder &builder, mlir::RankedTensorType global, ShardingAttr sharding);

  /// Returns whether the last dim is sharded.
  bool isSplit() const { return !axes.empty(); }
  /// Returns whether this device holds all columns. The columns may be padded.
  bool isOnOneDevice() const { return builder.getShards(axes) == 1; }
  int64_t getGlobalColumns() const { return global.getShape().back(); }

  /// Converts a value to the compute type.
  mlir::Value widen(mlir::Value value);
  mlir::Value convert(mlir::Value value, mlir::Type elementType);
  /// Creates a constant of `like`'s type.
  mlir::Value constant(mlir::Value like, double value);
  /// Fills the padded columns of `value` with `identity`.
  mlir::Value select(mlir::Value value, double identity);
  /// Reduces the columns of all ranks to one value per row.
  mlir::Value reduce(ReductionKind kind, mlir::Value value);
  /// Repeats one value per row along the columns of `like`.
  mlir::Value spread(mlir::Value row, mlir::Value like);
  /// Returns the global column of each local element, as i64 in `like`'s shape.
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
