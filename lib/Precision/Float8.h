// Rounds the operands of linear layers to scaled 8-bit floats.
#ifndef PARASHARD_LIB_PRECISION_FLOAT8_H
#define PARASHARD_LIB_PRECISION_FLOAT8_H

#include "Linears.h"
#include "dialects/ps/Float8.h"
#include "lib/IR/Symbols.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::precision {

/// Rounds linear layers in functions whose values have their final types. With delayed scaling,
/// each tensor that training rounds has three variables:
///
/// - `fp8.NAME.scale`: the scale
/// - `fp8.NAME.amax.history`: the largest |x| of each remembered step; the scale is computed from
///   it
/// - `fp8.NAME.amax.now`: the largest |x| of this step
class Float8 {
public:
  Float8(mlir::ModuleOp module, const PrecisionSpec::Float8 &options);

  /// Rounds the operands of contractions in `@micro_batch` and `@evaluate` that have a weight and
  /// whose dims are multiples of 16. Reports the contractions with other dims: as an error with
  /// misfit=error, else as a warning.
  mlir::LogicalResult run();

private:
  /// The rounded values of one function.
  struct Work {
    bool trains = false;
    llvm::StringMap<unsigned> taken; ///< number of contractions per weight
    /// Rounded values, by value and format.
    llvm::DenseMap<std::pair<mlir::Value, unsigned>, ps::Quantized> rounded;
    /// Largest |x| by value, with current scaling.
    llvm::DenseMap<mlir::Value, mlir::Value> largest;
  };
  /// The variables of a tensor whose scale follows from earlier steps.
  struct DelayedScale {
    ps::VariableOp scale, history, now;
    ps::Float8Format format;
  };

  mlir::LogicalResult roundForward(mlir::func::FuncOp function, Work &work,
                                   llvm::DenseMap<int64_t, Linear> &byOrigin);
  mlir::LogicalResult roundBackward(mlir::func::FuncOp function, Work &work,
                                    const llvm::DenseMap<int64_t, Linear> &byOrigin);
  /// Replaces operand `i` of a contraction by its rounded value. `name` is that of the scale. Fails
  /// if a variable cannot be added.
  mlir::LogicalResult round(Work &work, mlir::Operation *op, unsigned i, ps::Float8Format format,
                            const std::string &name, bool isRecorded);
  mlir::FloatType getElement(ps::Float8Format format);
  mlir::FailureOr<mlir::Value> getScale(Work &work, mlir::OpBuilder &builder, mlir::Operation *user,
                                        mlir::Value value, ps::Float8Format format,
                                        const std::string &name, bool isRecorded);
  mlir::FailureOr<DelayedScale> getDelayedScale(const std::string &name, ps::Float8Format format);
  void writeHistory(mlir::OpBuilder &builder, const DelayedScale &delayed);

  mlir::ModuleOp module;
  const PrecisionSpec::Float8 &options;
  LinearFinder linears;
  ir::VariableTable variables;
  bool hasTraining;
  llvm::SmallVector<DelayedScale> scales;
  llvm::StringMap<unsigned> scaleIndices; ///< index in `scales`, by name
};

} // namespace parashard::precision

#endif
