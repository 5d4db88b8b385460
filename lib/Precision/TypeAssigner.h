// Declares `TypeAssigner`, which chooses the types of a function's values by the precision classes
// of its ops.
#ifndef PARASHARD_LIB_PRECISION_TYPEASSIGNER_H
#define PARASHARD_LIB_PRECISION_TYPEASSIGNER_H

#include "OpClasses.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::precision {

/// Returns the op that computed a value, looking through broadcast, reshape, transpose and slice;
/// null for function arguments.
mlir::Operation *skipViews(mlir::Value value);

/// Assigns types to the values of one function, and inserts conversions. The types of the
/// function's arguments and results do not change.
class TypeAssigner {
public:
  /// `narrow` is the 16-bit type. `all` is true with `--precision half`: parameters, and therefore
  /// weight gradients, have the 16-bit type.
  TypeAssigner(mlir::func::FuncOp function, const OpClasses &classes, mlir::FloatType narrow,
               bool all);
  void run();

private:
  void assign(mlir::Operation *op);
  /// Sets the type of a read's result to the type of the variable. Converts the operand of a write
  /// or an accumulation.
  void matchVariable(mlir::Operation *op);
  void matchResults(mlir::Operation *end);
  /// Returns the element type for the operands and results of an op, or null if they keep their
  /// types.
  mlir::FloatType chooseType(mlir::Operation *op, const ps::OpPrecision &precision);
  mlir::FloatType chooseWidest(mlir::Operation *op, mlir::ValueRange operands);
  bool hasInexactNumber(mlir::Operation *op) const;
  void narrowUses(mlir::OpResult result);
  bool isBiasOf(mlir::Value bias, mlir::Value sum);

  /// Returns true if the element type of the value is f32 or `narrow`.
  bool isConvertible(mlir::Value value) const;
  /// Returns `value` converted to `type` for its use in `user`. Reuses an existing conversion if
  /// possible.
  mlir::Value convert(mlir::Value value, mlir::FloatType type, mlir::Operation *user);
  mlir::Operation *makeConvert(mlir::Value value, mlir::FloatType type, mlir::Operation *user);

  mlir::func::FuncOp function;
  const OpClasses &classes;
  mlir::FloatType narrow, wide;
  bool all;
  llvm::DenseSet<mlir::Operation *> cloneable;
  /// Values that depend on a parameter or a floating-point argument.
  llvm::DenseSet<mlir::Value> active;
  /// Results of `Compute` ops, and reshapes and transposes of them.
  llvm::DenseSet<mlir::Value> computed;
  /// Existing conversions, by value, type, and whether they widen the value for a backward op.
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Type, unsigned>, mlir::Value> converted;
};

} // namespace parashard::precision

#endif
