// Declares the symbols of loss variables, and helpers that create variables and ops.
#ifndef PARASHARD_LIB_IR_SYMBOLS_H
#define PARASHARD_LIB_IR_SYMBOLS_H

#include "dialects/ps/Ps.h"

namespace parashard::ir {

/// Symbols shared by several passes and the runtime.
inline constexpr llvm::StringLiteral kLossSymbol = "loss";
inline constexpr llvm::StringLiteral kLossSumSymbol = "loss.sum";
inline constexpr llvm::StringLiteral kLossCountSymbol = "loss.count";
/// Names of two results of `@evaluate`, for a count of the form max(sum + plus, least)
/// (`CountForm`). Example: `mask.sum().clamp(min=1)` has least = 1.
inline constexpr llvm::StringLiteral kLossPlusSymbol = "loss.plus";
inline constexpr llvm::StringLiteral kLossLeastSymbol = "loss.least";
/// Accumulators that `@count` fills (`loss.counted`, `loss.counted.1`, ...). A mean whose count is
/// computed from sums has one accumulator per sum. Example: mask.sum() in mask.sum().clamp(min=1).
/// Any other mean has one accumulator, for its count. If this mean is the first part of the loss,
/// the accumulator is `loss.count`.
inline constexpr llvm::StringLiteral kLossCountedSymbol = "loss.counted";
/// Variables of loss scaling: the scale, and the number of consecutive steps with finite gradients.
inline constexpr llvm::StringLiteral kLossScaleSymbol = "loss_scale";
inline constexpr llvm::StringLiteral kFiniteStepsSymbol = "loss_scale.finite_steps";
/// Accumulator that `@count` fills: the number of micro-batches of a step. Exists only if the loss
/// has several parts, and one of them is averaged over the micro-batches.
inline constexpr llvm::StringLiteral kMicroBatchesSymbol = "loss.micro_batches";

/// Splits a list at each `;` outside parentheses. Trims the parts and drops empty ones. Example:
/// "a(b;c); d" gives "a(b;c)" and "d".
llvm::SmallVector<std::string> splitList(llvm::StringRef text);

/// Looks up the variables of a module by symbol, and adds variables after the last one.
class VariableTable {
public:
  explicit VariableTable(mlir::ModuleOp module);

  /// Returns null if no variable has the symbol.
  ps::VariableOp lookup(llvm::StringRef symbol) const {
    return symbols.lookup<ps::VariableOp>(symbol);
  }
  /// Adds a variable. `of` and `init` may be null. Fails if the symbol exists.
  mlir::FailureOr<ps::VariableOp> add(ps::VariableKind kind, llvm::StringRef symbol,
                                      mlir::RankedTensorType type, ps::VariableOp of = {},
                                      mlir::Attribute init = {});

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  mlir::Operation *last = nullptr; ///< the last variable
};

/// Sets the phase of an op (`ps.phase`).
void setPhase(mlir::Operation *op, ps::Phase phase);
/// Returns the phase of an op, or nullopt.
std::optional<ps::Phase> getPhase(mlir::Operation *op);

/// Creates `ps.read @variable`, `ps.write @variable, %value` or `ps.accumulate @variable, %value`.
mlir::Value makeRead(mlir::OpBuilder &builder, mlir::Location loc, ps::VariableOp variable);
void makeWrite(mlir::OpBuilder &builder, mlir::Location loc, ps::VariableOp variable,
               mlir::Value value, mlir::Value condition = {});
ps::AccumulateOp makeAccumulate(mlir::OpBuilder &builder, mlir::Location loc,
                                ps::VariableOp variable, mlir::Value value,
                                ps::ReductionKind kind = ps::ReductionKind::Sum);

/// Creates a splat constant.
mlir::Value makeConstant(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type,
                         double value);
/// Converts `value` to the element type `element`. Returns `value` if no conversion is needed.
mlir::Value makeConvert(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                        mlir::Type element);

/// Erases ops without side effects whose results are not used.
void eraseDeadOps(mlir::Block &block);

} // namespace parashard::ir

#endif
