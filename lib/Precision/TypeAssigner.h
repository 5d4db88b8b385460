// Assigns types to the values of a function by the precision classes of its ops.
#ifndef PARASHARD_LIB_PRECISION_TYPEASSIGNER_H
#define PARASHARD_LIB_PRECISION_TYPEASSIGNER_H

#include "OpClasses.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::precision {

/// Returns the op that computed a value, skipping ops that only move elements; null for arguments.
mlir::Operation *getOrigin(mlir::Value value);

/// Rewrites one function in place. Its arguments and results keep their types.
class TypeAssigner {
public:
  /// `narrow` is the 16-bit type. With `all`, uses of floating-point arguments and gradients of
  /// weights are narrowed too.
  TypeAssigner(mlir::func::FuncOp function, const OpClasses &classes, mlir::FloatType narrow,
               bool all);
  void run();

private:
  void assign(mlir::Operation *op);
  /// Gives the result of a read, or the operand of a write, the type of its variable.
  void matchVariable(mlir::Operation *op);
  void matchResults(mlir::Operation *end);
  /// Returns the type for an op's tensors; null if they keep their types.
  mlir::FloatType chooseType(mlir::Operation *op, const ps::OpPrecision &precision);
  mlir::FloatType chooseWidest(mlir::Operation *op, mlir::ValueRange operands);
  bool hasInexactNumber(mlir::Operation *op) const;
  void narrowUses(mlir::OpResult result);
  bool isBiasOf(mlir::Value bias, mlir::Value sum);

  /// Returns true if the value is f32 or of the 16-bit type.
  bool isConvertible(mlir::Value value) const;
  /// Returns the value converted to `type`, for `user`.
  mlir::Value convert(mlir::Value value, mlir::FloatType type, mlir::Operation *user);
  mlir::Operation *makeConvert(mlir::Value value, mlir::FloatType type, mlir::Operation *user);

  mlir::func::FuncOp function;
  const OpClasses &classes;
  mlir::FloatType narrow, wide;
  bool all;
  llvm::DenseSet<mlir::Operation *> cloneable;
  /// Values that depend on a parameter or a floating-point argument.
  llvm::DenseSet<mlir::Value> active;
  /// Results of `Compute` ops, possibly with their elements moved.
  llvm::DenseSet<mlir::Value> computed;
  /// Conversions by value, type and whether the user is a backward op.
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Type, unsigned>, mlir::Value> converted;
};

} // namespace parashard::precision

#endif
