// Quantizes the operands of linear layers to fp8 with scales.
#ifndef PARASHARD_LIB_PRECISION_FLOAT8_H
#define PARASHARD_LIB_PRECISION_FLOAT8_H

#include "Linears.h"
#include "dialects/ps/Float8.h"
#include "lib/IR/Symbols.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace parashard::precision {

/// Quantizes the operands of linear layers. Runs after `TypeAssigner`. With delayed scaling, each
/// quantized tensor of `@micro_batch` has three variables:
///
/// - `fp8.NAME.scale`: the scale
/// - `fp8.NAME.amax.history`: the largest |x| of each of the last `history` steps; their maximum
///   determines the scale
/// - `fp8.NAME.amax.now`: the largest |x| of this step
class Float8 {
public:
  Float8(mlir::ModuleOp module, const PrecisionSpec::Float8 &options);

  /// Quantizes both operands of each linear layer in `@micro_batch` and `@evaluate`, and both
  /// operands of the layer's backward contractions. Layers whose dims are not multiples of 16 stay
  /// in bf16. Reports these layers: as an error with misfit=error, else as a warning. Warns if the
  /// module has no linear layer that `LinearFinder` matches.
  mlir::LogicalResult run();

private:
  /// The quantized values of one function.
  struct FunctionState {
    bool trains = false;
    llvm::StringMap<unsigned> taken; ///< number of linear layers so far, by weight
    /// Quantized values, by original value and format.
    llvm::DenseMap<std::pair<mlir::Value, unsigned>, ps::Quantized> quantized;
    /// With current scaling: the largest |x| of each value.
    llvm::DenseMap<mlir::Value, mlir::Value> largest;
  };
  /// The variables of a tensor with delayed scaling.
  struct DelayedScale {
    ps::VariableOp scale, history, now;
    ps::Float8Format format;
  };

  mlir::LogicalResult quantizeForward(mlir::func::FuncOp function, FunctionState &state,
                                      llvm::DenseMap<int64_t, Linear> &byOrigin);
  mlir::LogicalResult quantizeBackward(mlir::func::FuncOp function, FunctionState &state,
                                       const llvm::DenseMap<int64_t, Linear> &byOrigin);
  /// Replaces operand `i` of a contraction by its quantized and dequantized value. `name` is the
  /// NAME of the scale's variables. With `isRecorded` and delayed scaling, also sets `amax.now` to
  /// the larger of its old value and the amax of the operand. Fails if a variable cannot be added.
  mlir::LogicalResult quantize(FunctionState &state, mlir::Operation *op, unsigned i,
                               ps::Float8Format format, const std::string &name, bool isRecorded);
  mlir::FloatType getElement(ps::Float8Format format);
  mlir::FailureOr<mlir::Value> getScale(FunctionState &state, mlir::OpBuilder &builder,
                                        mlir::Operation *user, mlir::Value value,
                                        ps::Float8Format format, const std::string &name,
                                        bool isRecorded);
  mlir::FailureOr<DelayedScale> getDelayedScale(const std::string &name, ps::Float8Format format);
  void writeHistory(mlir::OpBuilder &builder, const DelayedScale &delayed) const;

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
