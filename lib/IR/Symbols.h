// Variables and marks, as the training passes make and match them.
#ifndef PARASHARD_LIB_IR_SYMBOLS_H
#define PARASHARD_LIB_IR_SYMBOLS_H

#include "dialects/ps/Ps.h"

namespace parashard {

/// Symbols that several passes and the runtime know.
inline constexpr llvm::StringLiteral kLossSymbol = "loss";
inline constexpr llvm::StringLiteral kLossSumSymbol = "loss.sum";
inline constexpr llvm::StringLiteral kLossCountSymbol = "loss.count";
/// Outputs of an evaluation: the number added to the sum of its counts, and the lower bound of the
/// result (`CountForm`).
inline constexpr llvm::StringLiteral kLossPlusSymbol = "loss.plus";
inline constexpr llvm::StringLiteral kLossLeastSymbol = "loss.least";
inline constexpr llvm::StringLiteral kLossCountedSymbol = "loss.counted";
/// What the loss's cotangent is where it is scaled, and how many steps in a row were finite.
inline constexpr llvm::StringLiteral kLossScaleSymbol = "loss_scale";
inline constexpr llvm::StringLiteral kFiniteStepsSymbol = "loss_scale.finite_steps";
inline constexpr llvm::StringLiteral kMicroBatchesSymbol = "loss.micro_batches";

/// The parts between the `;`s outside parentheses, without blanks around; empty ones are left out.
llvm::SmallVector<std::string> splitList(llvm::StringRef text);

/// The variables of a module by symbol, and the place where new ones go: after the last.
class VariableTable {
public:
  explicit VariableTable(mlir::ModuleOp module);

  /// Null where the symbol is none of a variable.
  ps::VariableOp lookup(llvm::StringRef symbol) const {
    return symbols.lookup<ps::VariableOp>(symbol);
  }
  /// A new variable. `of` and `init` may be null. Fails where the symbol is taken.
  mlir::FailureOr<ps::VariableOp> add(ps::VariableKind kind, llvm::StringRef symbol,
                                      mlir::RankedTensorType type, ps::VariableOp of = {},
                                      mlir::Attribute init = {});

private:
  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  mlir::Operation *last = nullptr; ///< the last variable
};

/// Marks every op without a phase in a function, but its terminator.
void setPhase(mlir::Operation *op, ps::Phase phase);
/// The op's phase, if it has one.
std::optional<ps::Phase> getPhase(mlir::Operation *op);

/// Makes `ps.read @variable`, `ps.write @variable, %value` and `ps.accumulate @variable, %value`.
mlir::Value makeRead(mlir::OpBuilder &builder, mlir::Location loc, ps::VariableOp variable);
void makeWrite(mlir::OpBuilder &builder, mlir::Location loc, ps::VariableOp variable,
               mlir::Value value, mlir::Value condition = {});
ps::AccumulateOp makeAccumulate(mlir::OpBuilder &builder, mlir::Location loc,
                                ps::VariableOp variable, mlir::Value value,
                                ps::ReductionKind kind = ps::ReductionKind::Sum);

/// Splat constant of a type; a convert where the element type differs.
mlir::Value makeConstant(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type,
                         double value);
mlir::Value makeConvert(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value,
                        mlir::Type element);

/// Removes ops without effects whose results nobody uses.
void eraseDeadOps(mlir::Block &block);

} // namespace parashard

#endif
