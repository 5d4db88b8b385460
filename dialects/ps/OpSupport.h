// Declares the C++ types of the op interfaces.
#ifndef PARASHARD_DIALECTS_PS_OPSUPPORT_H
#define PARASHARD_DIALECTS_PS_OPSUPPORT_H

#include "dialects/ps/PsAttributes.h"
#include "dialects/ps/ShardingRule.h"
#include "dialects/ps/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/ValueRange.h"
#include <functional>

namespace parashard::ps {

/// The type in which an op computes under `--precision`, as in torch.autocast.
enum class PrecisionClass {
  Compute, ///< the 16-bit type of --precision
  Fp32,    ///< f32
  Widest,  ///< the widest type among its operands
};

/// The type that `ps-precision` gives to the values of an op. The first `operands` operands and the
/// first `results` results have this type; -1 means all. The other values, such as masks and
/// statistics, keep their types. Example: attention has {Compute, 3, 1}: query, key, value and the
/// result are in the 16-bit type; the mask and the log-sum-exp keep their types.
struct OpPrecision {
  PrecisionClass kind = PrecisionClass::Widest;
  int operands = -1, results = -1;
};

/// Gives an op a constant OpPrecision. In ODS: PS_Precision.
template <PrecisionClass kind, int operands, int results> struct HasPrecision {
  template <typename Concrete> class Impl : public mlir::OpTrait::TraitBase<Concrete, Impl> {
  public:
    static OpPrecision getPrecision() { return {kind, operands, results}; }
  };
};

/// The library routine that executes contraction flops. Each routine has its own rate (flops per
/// second).
enum class FlopKind { Matmul, Attention, AttentionGrad };

/// Flops and bytes of an op. A multiply-add counts as two flops.
struct OpCost {
  int64_t contractionFlops = 0;
  FlopKind flopKind = FlopKind::Matmul; ///< kind of contractionFlops
  int64_t otherFlops = 0;
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
};

/// Counts one flop per result element, one read of each operand, and one write of each result.
OpCost elementwiseCost(mlir::TypeRange operands, mlir::TypeRange results);
/// Returns the type of a tensor value.
inline mlir::RankedTensorType getTensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
/// Returns the bytes of a static tensor type or a scalar type, and 0 for other types. i1 takes one
/// byte per element.
int64_t getByteSize(mlir::Type type);

/// Returns whether the value is a read of one variable, possibly followed by conversions and views
/// (transpose, reshape, slice).
bool isVariableValue(mlir::Value value);

/// Builds the backward of one forward op. Each created op gets `ps.phase` and `ps.origin`.
class BackwardBuilder : public mlir::OpBuilder, mlir::OpBuilder::Listener {
public:
  /// `origin` is the number of the forward op (`ps.origin`). `needed[i]` tells whether the
  /// cotangent of operand i is needed.
  BackwardBuilder(mlir::Operation *forward, int64_t origin, llvm::ArrayRef<bool> needed);

  bool needs(unsigned operand) const { return needed[operand]; }
  mlir::Location getLoc() const { return loc; }

  /// Creates an op at the forward op's location.
  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(*this, loc, std::forward<Args>(args)...);
  }

  /// While an object of this class exists, created ops get the phase `backward_weight`.
  class WeightScope {
  public:
    explicit WeightScope(BackwardBuilder &b) : builder(b), before(b.phase) {
      b.phase = Phase::BackwardWeight;
    }
    ~WeightScope() { builder.phase = before; }
    WeightScope(const WeightScope &) = delete;

  private:
    BackwardBuilder &builder;
    Phase before;
  };
  [[nodiscard]] WeightScope weight() { return WeightScope(*this); }

private:
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override;

  mlir::Location loc;
  int64_t origin;
  llvm::SmallVector<bool> needed;
  Phase phase = Phase::BackwardInput;
};

/// Returns whether a contraction of operands with the element type `operands` may have results of
/// the element type `result`. Results have the same type, or f32 for 16-bit floats.
inline bool mayYield(mlir::Type operands, mlir::Type result) {
  return result == operands || (result.isF32() && (operands.isF16() || operands.isBF16()));
}

/// Declares the functions that an op's `partition` method may call. The partitioner (lib/Partition)
/// implements them.
class PartitionBuilder : public mlir::OpBuilder {
public:
  using mlir::OpBuilder::OpBuilder;
  virtual ~PartitionBuilder() = default;
  virtual mlir::Location getLoc() const = 0;

  /// Return the shardings of the op being partitioned. Operand i is the local value `locals[i]`
  /// that `partition` receives.
  virtual ShardingAttr getOperandSharding(unsigned i) const = 0;
  virtual ShardingAttr getResultSharding(unsigned i) const = 0;
  /// Return the global types.
  virtual mlir::RankedTensorType getOperandType(unsigned i) const = 0;
  virtual mlir::RankedTensorType getResultType(unsigned i) const = 0;

  /// Returns the number of shards over `axes` (1 if empty).
  virtual int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const = 0;
  /// Returns the number of elements in each shard, including padding, if a factor of `size`
  /// elements is sharded over `axes`.
  virtual int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const = 0;
  /// Returns those of `axes` that have more than one device, as an `axes` attribute for
  /// collectives.
  virtual mlir::ArrayAttr getDeviceAxes(llvm::ArrayRef<mlir::StringAttr> axes) const = 0;
  /// Returns the linear shard index over `axes` (major to minor) as tensor<i64>.
  virtual mlir::Value getShardIndex(llvm::ArrayRef<mlir::StringAttr> axes) = 0;
  /// Reduces a value over `axes`.
  virtual mlir::Value allReduce(mlir::Value value, ReductionKind kind,
                                llvm::ArrayRef<mlir::StringAttr> axes) = 0;
  /// Returns the global index along `dim` of each local element, as tensor<Nxi64>, where N is the
  /// local size of the dim. The tensor has the global type `global` and is sharded by `sharding`.
  virtual mlir::Value getGlobalIndices(mlir::RankedTensorType global, ShardingAttr sharding,
                                       unsigned dim) = 0;
  /// Returns `local` with its padding along `dim` set to `identity`. Returns `local` itself if the
  /// dim has no padding.
  virtual mlir::Value selectPadding(mlir::Value local, mlir::RankedTensorType global,
                                    ShardingAttr sharding, unsigned dim, double identity) = 0;
  /// Records that the padding of `local` along `dim` is zero. No other dim may be padded.
  virtual void setZeroPadded(mlir::Value local, unsigned dim) = 0;

  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(*this, getLoc(), std::forward<Args>(args)...);
  }
};

/// Default implementation of PartitionOpInterface: sets the padding of reduced dims to the identity
/// of the reduction, then clones `op` on `locals` with the result types `localResults`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> partitionByCloning(mlir::Operation *op,
                                                                   PartitionBuilder &builder,
                                                                   mlir::ValueRange locals,
                                                                   mlir::TypeRange localResults);

/// How an op is lowered. `None`: the op does not implement `LoweringOpInterface`, like the ops that
/// access variables.
enum class LoweringKind { None, Elementwise, Row, Movement, Library, Collective };

/// Describes which random number each local element draws: Philox with the key (run seed, `key`,
/// step) and the counter `microBatch` x `globalSize` + global index. `factorSizes` arranges the
/// local elements as a row-major array. An element's global index is `offset` + the sum of its
/// index along each factor x the factor's stride. Example: the right half of a 2 x 4 tensor has
/// `offset` 2, factorSizes {2, 2} and factorStrides {4, 1}. Its local element 3 has the indices (1,
/// 1), and the global index 2 + 1 x 4 + 1 x 1 = 7. Without factors, the global index is `offset` +
/// the local index.
struct RandomPosition {
  mlir::Value key;        ///< i64 scalar
  mlir::Value microBatch; ///< i64 scalar; null for 0
  mlir::Value offset;     ///< i64 scalar; null for 0
  int64_t globalSize = 0;
  llvm::ArrayRef<int64_t> factorSizes;
  llvm::ArrayRef<int64_t> factorStrides;
};

/// Builds the computation of one element. Operands and results have the op's element types. All are
/// scalars, or all are vectors of the same length. Floating-point ops get no fast-math flags.
class ElementBuilder {
public:
  ElementBuilder(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}
  virtual ~ElementBuilder() = default;
  mlir::OpBuilder &builder() { return b; }
  mlir::Location getLoc() const { return loc; }

  /// Creates a constant of `like`'s type (scalar or vector).
  mlir::Value constant(mlir::Value like, double value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z);
  mlir::Value neg(mlir::Value x);
  /// Compares floats (ordered; `ne` unordered) or signed integers. Returns i1 or a vector of i1.
  mlir::Value compare(Predicate predicate, mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  /// Creates a math op such as math.exp: `unary<mlir::math::ExpOp>(x)`.
  template <typename Op> mlir::Value unary(mlir::Value x) { return Op::create(b, loc, x); }
  /// Draws uniform f32 numbers in [0, 1) for the current elements, with as many lanes as `like`.
  /// Returns null if the code generator does not support random numbers.
  virtual mlir::Value random(const RandomPosition &position, mlir::Value like) { return {}; }

protected:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// Builds the code of a Row op. The last dim of operand 0 gives the columns, the other dims give
/// the rows. A column function returns the element (a vector of lanes) at the current columns.
class RowBuilder {
public:
  using Column = std::function<mlir::Value(ElementBuilder &)>;
  virtual ~RowBuilder() = default;

  /// Returns the number of columns of a row, without padding.
  virtual int64_t getColumns() const = 0;
  /// Returns the column function of an operand. If the operand has no column dim, the function
  /// returns the same element for all columns of a row.
  virtual Column load(unsigned operand) = 0;
  /// Loads an operand without a column dim, once per row (a scalar).
  virtual mlir::Value loadRow(unsigned operand) = 0;
  /// Loads the element of an operand at `column`, an index scalar that is computed at run time.
  virtual mlir::Value loadAt(unsigned operand, mlir::Value column) = 0;
  /// Reduces a column function over the row in a fixed order: column c is combined into partial
  /// result c mod 64, then the 64 partial results are combined.
  virtual mlir::Value reduce(ReductionKind kind, Column column) = 0;
  /// Returns a column function that returns `scalar` for every column.
  virtual Column splat(mlir::Value scalar) = 0;
  /// Returns a column function that returns the column indices, as i64 lanes.
  virtual Column columnIndex() = 0;
  /// Computes a column function once per row, and keeps the values for later uses in the same row.
  virtual Column keep(Column column, mlir::Type elementType) = 0;
  /// Define a result by a column function, or by one scalar per row.
  virtual void store(unsigned result, Column column) = 0;
  virtual void storeRow(unsigned result, mlir::Value scalar) = 0;
  /// Returns the builder of scalar arithmetic between loops.
  virtual ElementBuilder &scalars() = 0;
};

} // namespace parashard::ps

#endif
