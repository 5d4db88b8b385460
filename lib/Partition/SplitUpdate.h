// Which stages use which variables, and what @update does on each pipeline coordinate.
#ifndef PARASHARD_LIB_PARTITION_SPLITUPDATE_H
#define PARASHARD_LIB_PARTITION_SPLITUPDATE_H

#include "lib/IR/Stages.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <set>

namespace parashard::ps {

/// On a function that one pipeline coordinate runs: which.
inline constexpr llvm::StringLiteral kCoordinateMark = "ps.coordinate";

/// On the accumulator of one stage: the variable that it adds to, of the first stage.
inline constexpr llvm::StringLiteral kAddsToMark = "ps.adds_to";

/// The stages that read, write or add to each variable in the functions of segments.
class StageVariables {
public:
  StageVariables(mlir::ModuleOp module, llvm::ArrayRef<mlir::func::FuncOp> functions);

  /// Fails where state that one stage writes (running statistics, a counter) is used in another,
  /// which would not see it: a step's micro-batches are on their way at once.
  mlir::LogicalResult verifyState();

  /// A variable that several stages add to gets one accumulator a stage, and another for what is
  /// added with the weight gradients, which may run later: each is added to in the order of the
  /// micro-batches. The first keeps the symbol.
  void separateAccumulators();

  const Stages &getStages() const { return stages; }
  /// The parameter (or other variable) that a variable belongs to in the end.
  mlir::StringAttr getRoot(mlir::StringAttr symbol) const;
  /// Coordinates that keep a variable: those whose stages use it or what belongs to the same
  /// parameter; of a parameter that none uses, the first; of other variables that none uses, all.
  llvm::SmallVector<int64_t> getHolders(mlir::StringAttr symbol) const;
  /// The first stage that uses a variable, or what belongs to the same parameter; 0 if none does.
  int64_t getFirstStage(mlir::StringAttr symbol) const;
  /// What a step adds up of `symbol`, in order of stages: the coordinate, and the accumulator.
  llvm::ArrayRef<std::pair<int64_t, mlir::StringAttr>>
  getAccumulators(mlir::StringAttr symbol) const;

private:
  void note(mlir::func::FuncOp function);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  llvm::SmallVector<mlir::func::FuncOp> functions;
  Stages stages;
  llvm::DenseMap<mlir::StringAttr, std::set<int64_t>> users;    ///< stages, by root
  llvm::MapVector<mlir::StringAttr, mlir::Operation *> writers; ///< the first, by variable
  /// A stage, and whether it is with the weight gradients.
  using Adder = std::pair<int64_t, bool>;
  Adder getAdder(mlir::Operation *op) const;
  llvm::MapVector<mlir::StringAttr, std::set<Adder>> adders; ///< by variable
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<std::pair<int64_t, mlir::StringAttr>>>
      accumulators;
};

/// Replaces `@update` by one function a pipeline coordinate, `@update.pp0`, `@update.pp1`, ...:
/// with the parameters that the coordinate holds, and with what stages combine: sums of a variable
/// over those that add to it, and sums over parameters (the global norm), in which each counts
/// once. Fails where parameters of several coordinates meet in anything but a sum.
mlir::LogicalResult splitUpdate(mlir::ModuleOp module, const StageVariables &variables);

} // namespace parashard::ps

#endif
