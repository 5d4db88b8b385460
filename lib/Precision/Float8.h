// Rounds operands of linear layers to scaled 8-bit floats.
#ifndef PARASHARD_LIB_PRECISION_FLOAT8_H
#define PARASHARD_LIB_PRECISION_FLOAT8_H

#include "Linears.h"
#include "dialects/ps/Float8.h"
#include "lib/IR/Symbols.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard {

/// Works on functions whose ops have their types. With delayed scaling each tensor that training
/// rounds has three variables: `fp8.NAME.unit`, by which it is held in 8 bits; `.amax.history`, the
/// largest |x| of the steps that are remembered, from which the unit follows; and `.amax.now`, the
/// largest of this step.
class Float8 {
public:
  Float8(mlir::ModuleOp module, const PrecisionSpec::Float8 &options);

  /// Rounds what contractions of `@micro_batch` and `@evaluate` take that have a weight and dims of
  /// multiples of 16. Fails on others where the options ask for it, and lists them elsewhere.
  mlir::LogicalResult run();

private:
  /// What one function rounds.
  struct Work {
    bool trains = false;
    llvm::StringMap<unsigned> taken; ///< contractions of each weight
    /// By value and format.
    llvm::DenseMap<std::pair<mlir::Value, unsigned>, ps::Quantized> rounded;
    llvm::DenseMap<mlir::Value, mlir::Value> largest; ///< current scaling: by value
  };
  /// The variables of a tensor that is scaled by earlier steps.
  struct Scale {
    ps::VariableOp unit, history, now;
    ps::Float8Format format;
  };

  mlir::LogicalResult roundForward(mlir::func::FuncOp function, Work &work,
                                   llvm::DenseMap<int64_t, Linear> &byOrigin);
  mlir::LogicalResult roundBackward(mlir::func::FuncOp function, Work &work,
                                    const llvm::DenseMap<int64_t, Linear> &byOrigin);
  /// Operand `i` of a contraction, rounded, in its place; `name` is of its scale. Fails where a
  /// variable cannot be made.
  mlir::LogicalResult round(Work &work, mlir::Operation *op, unsigned i, ps::Float8Format format,
                            const std::string &name, bool isRecorded);
  mlir::FloatType getElement(ps::Float8Format format);
  mlir::FailureOr<mlir::Value> getUnit(Work &work, mlir::OpBuilder &builder, mlir::Operation *user,
                                       mlir::Value value, ps::Float8Format format,
                                       const std::string &name, bool isRecorded);
  mlir::FailureOr<Scale> getScale(const std::string &name, ps::Float8Format format);
  void writeHistory(mlir::OpBuilder &builder, const Scale &scale);

  mlir::ModuleOp module;
  const PrecisionSpec::Float8 &options;
  LinearFinder linears;
  VariableTable variables;
  bool hasTraining;
  llvm::SmallVector<Scale> scales;
  llvm::StringMap<unsigned> scaleOf; ///< by name, which of them
};

} // namespace parashard

#endif
