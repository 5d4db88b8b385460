// The C++ types that the op interfaces speak in.
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
  Compute, ///< the 16-bit type
  Fp32,    ///< f32
  Widest,  ///< the widest type among its operands
};

/// How `ps-precision` types an op. `operands` and `results` count those, from the first on, that
/// have the op's type; -1 stands for all. The others are masks and statistics with types of their
/// own. Example: attention has {Compute, 3, 1}, as its mask and its log-sum-exp keep their types.
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

/// Flops and bytes of an op: a multiply-add counts two.
struct OpCost {
  int64_t contractionFlops = 0;
  int64_t otherFlops = 0;
  int64_t bytesRead = 0;
  int64_t bytesWritten = 0;
};

/// One flop an element, every operand read once, every result written once.
OpCost elementwiseCost(mlir::TypeRange operands, mlir::TypeRange results);
/// Returns the type of a tensor value.
inline mlir::RankedTensorType getTensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}
/// Bytes of a static tensor type (i1 counts a byte an element).
int64_t getByteSize(mlir::Type type);

/// True when the value depends on one variable alone: a read, converted or moved.
bool isVariableValue(mlir::Value value);

/// Builds the backward of one forward op: every op it creates gets `ps.phase` and `ps.origin`.
class BackwardBuilder : public mlir::OpBuilder, mlir::OpBuilder::Listener {
public:
  /// `origin`: the ordinal of the forward op; `needed[i]`: whether operand i's cotangent is wanted.
  BackwardBuilder(mlir::Operation *forward, int64_t origin, llvm::ArrayRef<bool> needed);

  bool needs(unsigned operand) const { return needed[operand]; }
  mlir::Location getLoc() const { return loc; }

  /// create<Op>(args...) at the forward op's location.
  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(*this, loc, std::forward<Args>(args)...);
  }

  /// While it lives, created ops are marked `backward_weight` instead of `backward_input`.
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

/// Whether an op that sums products of elements of one type may yield the other: its own, or f32 of
/// 16-bit floats.
inline bool mayYield(mlir::Type operands, mlir::Type result) {
  return result == operands || (result.isF32() && (operands.isF16() || operands.isBF16()));
}

/// What an op's `partition` may ask and build. Implemented by the partitioner (lib/Sharding).
class PartitionBuilder : public mlir::OpBuilder {
public:
  using mlir::OpBuilder::OpBuilder;
  virtual ~PartitionBuilder() = default;
  virtual mlir::Location getLoc() const = 0;

  /// The shardings that hold for the op being partitioned (of operands as given in `locals`).
  virtual ShardingAttr getOperandSharding(unsigned i) const = 0;
  virtual ShardingAttr getResultSharding(unsigned i) const = 0;
  /// The global types.
  virtual mlir::RankedTensorType getOperandType(unsigned i) const = 0;
  virtual mlir::RankedTensorType getResultType(unsigned i) const = 0;

  /// Number of shards over `axes` (1 for none).
  virtual int64_t getShards(llvm::ArrayRef<mlir::StringAttr> axes) const = 0;
  /// The places of each shard of a factor of `size` over `axes`, padding included.
  virtual int64_t getShardSize(int64_t size, llvm::ArrayRef<mlir::StringAttr> axes) const = 0;
  /// The axes along which there are other devices, as collectives name them.
  virtual mlir::ArrayAttr getDeviceAxes(llvm::ArrayRef<mlir::StringAttr> axes) const = 0;
  /// The linear shard index over `axes` (major to minor), as tensor<i64>.
  virtual mlir::Value getShardIndex(llvm::ArrayRef<mlir::StringAttr> axes) = 0;
  /// Combines a value over `axes`.
  virtual mlir::Value allReduce(mlir::Value value, ReductionKind kind,
                                llvm::ArrayRef<mlir::StringAttr> axes) = 0;
  /// For a value laid out by `sharding` with global type `global`: the global index along `dim` of
  /// each local place, as tensor<Nxi64> (N: local size of the dim).
  virtual mlir::Value getGlobalIndices(mlir::RankedTensorType global, ShardingAttr sharding,
                                       unsigned dim) = 0;
  /// Puts `identity` in the padded places of `local` along `dim` (nothing where none is padded).
  virtual mlir::Value selectPadding(mlir::Value local, mlir::RankedTensorType global,
                                    ShardingAttr sharding, unsigned dim, double identity) = 0;
  /// Says that `local` is zero in its padded places along `dim`, where no other dim is padded too.
  virtual void setZeroPadded(mlir::Value local, unsigned dim) = 0;

  template <typename Op, typename... Args> Op make(Args &&...args) {
    return Op::create(*this, getLoc(), std::forward<Args>(args)...);
  }
};

/// The default of PartitionOpInterface: selects the identity in padded places of reduced dims, then
/// clones `op` on `locals` with `localResults`.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> partitionByCloning(mlir::Operation *op,
                                                                   PartitionBuilder &builder,
                                                                   mlir::ValueRange locals,
                                                                   mlir::TypeRange localResults);

/// How an op becomes code. `None`: it never reaches code generation (variables, structure).
enum class LoweringKind { None, Elementwise, Row, Movement, Library, Collective };

/// Where an element's random number comes from: Philox with key (run seed, `key`, step) and counter
/// `microBatch` x `globalSize` + `offset` + sum of its place in each of `factorSizes` (row-major
/// over the op's local elements) times `factorStrides`. Empty factors: the local element index
/// itself.
struct RandomPosition {
  mlir::Value key;        ///< i64 scalar
  mlir::Value microBatch; ///< i64 scalar; null for 0
  mlir::Value offset;     ///< i64 scalar; null for 0
  int64_t globalSize = 0;
  llvm::ArrayRef<int64_t> factorSizes;
  llvm::ArrayRef<int64_t> factorStrides;
};

/// Builds one element's computation. Operands and results are scalars or vectors of one width of
/// the op's element types; every op created acts on them alike. Floating ops get no fast-math
/// flags.
class ElementBuilder {
public:
  ElementBuilder(mlir::OpBuilder &b, mlir::Location loc) : b(b), loc(loc) {}
  virtual ~ElementBuilder() = default;
  mlir::OpBuilder &builder() { return b; }
  mlir::Location getLoc() const { return loc; }

  /// A constant of `like`'s type (scalar or vector).
  mlir::Value constant(mlir::Value like, double value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z);
  mlir::Value neg(mlir::Value x);
  /// A floating comparison (ordered, `ne` unordered) or a signed integer one; i1 or a vector of it.
  mlir::Value compare(Predicate predicate, mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  /// math.exp and the like, by op class: `unary<mlir::math::ExpOp>(x)`.
  template <typename Op> mlir::Value unary(mlir::Value x) { return Op::create(b, loc, x); }
  /// Uniform f32 numbers in [0, 1) for the current elements, with as many lanes as `like`. Null
  /// where the code generator in use has no random numbers.
  virtual mlir::Value random(const RandomPosition &place, mlir::Value like) { return {}; }

protected:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// Builds the code of a Row op: the last dim of its operand 0 is the row's columns, all other dims
/// are rows. A column function gives the element (a vector of lanes) at the current columns.
class RowBuilder {
public:
  using Column = std::function<mlir::Value(ElementBuilder &)>;
  virtual ~RowBuilder() = default;

  /// Columns of the row (not padded), as a number known at compile time.
  virtual int64_t getColumns() const = 0;
  /// Operand i as a function of the columns (an operand with no column dim: the same everywhere).
  virtual Column load(unsigned operand) = 0;
  /// Operand i, which has no column dim, once for the row (a scalar).
  virtual mlir::Value loadRow(unsigned operand) = 0;
  /// The element of operand i at a run-time column (an index scalar).
  virtual mlir::Value loadAt(unsigned operand, mlir::Value column) = 0;
  /// Reduces a column function over the row in the fixed order (64 partials by index mod 64).
  virtual mlir::Value reduce(ReductionKind kind, Column column) = 0;
  /// A scalar as a function of the columns.
  virtual Column splat(mlir::Value scalar) = 0;
  /// The current columns' indices, as i64 lanes.
  virtual Column columnIndex() = 0;
  /// Keeps a column function's values for the rest of the row (computed once).
  virtual Column keep(Column column, mlir::Type elementType) = 0;
  /// Defines result i: by column, or one scalar a row.
  virtual void store(unsigned result, Column column) = 0;
  virtual void storeRow(unsigned result, mlir::Value scalar) = 0;
  /// Scalar arithmetic between loops.
  virtual ElementBuilder &scalars() = 0;
};

} // namespace parashard::ps

#endif
