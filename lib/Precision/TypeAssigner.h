// Gives the values of a function their types by the classes of its ops.
#ifndef PARASHARD_LIB_PRECISION_TYPEASSIGNER_H
#define PARASHARD_LIB_PRECISION_TYPEASSIGNER_H

#include "OpClasses.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard {

/// The op that made a value, behind what only moves its elements; null for arguments.
mlir::Operation *getOrigin(mlir::Value value);

/// Rewrites one function in place; its arguments and results keep their types.
class TypeAssigner {
public:
  /// `narrow`: the 16-bit type. With `all`, floating arguments are narrowed where they are used,
  /// and gradients of weights too.
  TypeAssigner(mlir::func::FuncOp function, const OpClasses &classes, mlir::FloatType narrow,
               bool all);
  void run();

private:
  void assign(mlir::Operation *op);
  /// What a read yields, or takes for a write: its variable's type now.
  void matchVariable(mlir::Operation *op);
  void matchResults(mlir::Operation *end);
  /// The type that an op's tensors get; null where they stay.
  mlir::FloatType chooseType(mlir::Operation *op, const ps::OpPrecision &precision);
  mlir::FloatType chooseWidest(mlir::Operation *op, mlir::ValueRange operands);
  bool hasInexactNumber(mlir::Operation *op) const;
  void narrowUses(mlir::OpResult result);
  bool isBiasOf(mlir::Value bias, mlir::Value sum);

  /// Whether it is f32, or of the 16-bit type.
  bool isOwn(mlir::Value value) const;
  /// The value in a type, for `user`.
  mlir::Value convert(mlir::Value value, mlir::FloatType type, mlir::Operation *user);
  mlir::Operation *makeConvert(mlir::Value value, mlir::FloatType type, mlir::Operation *user);

  mlir::func::FuncOp function;
  const OpClasses &classes;
  mlir::FloatType narrow, wide;
  bool all;
  llvm::DenseSet<mlir::Operation *> cloneable;
  /// Values that depend on a parameter or a floating argument.
  llvm::DenseSet<mlir::Value> active;
  /// Values that `compute` ops yield, also as others move them.
  llvm::DenseSet<mlir::Value> computed;
  /// By value, type and whether it is for a backward op.
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Type, unsigned>, mlir::Value> converted;
};

} // namespace parashard

#endif
