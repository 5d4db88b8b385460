// Finds which stages use which variables, and splits @update by pipeline coordinate.
#ifndef PARASHARD_LIB_PARTITION_SPLITUPDATE_H
#define PARASHARD_LIB_PARTITION_SPLITUPDATE_H

#include "lib/IR/Stages.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <set>

namespace parashard::partition {

/// Records which stages read, write or accumulate each variable, in functions with segments.
class StageVariables {
public:
  StageVariables(mlir::ModuleOp module, llvm::ArrayRef<mlir::func::FuncOp> functions);

  /// Fails if several stages use a variable that the forward writes (running statistics, a
  /// counter). The other stages would miss updates, because several micro-batches are in flight at
  /// once.
  mlir::LogicalResult verifyState();

  /// Creates one accumulator per adder, if a variable has several adders. A stage has up to two
  /// adders: its ops of phase `backward_weight`, which may run later, and its other ops. Each
  /// accumulator is thus updated in the order of the micro-batches. The accumulator of the first
  /// adder keeps the symbol.
  void separateAccumulators();

  const ir::Stages &getStages() const { return stages; }
  /// Follows the `of` attributes from a variable and returns the last variable. Stops at a variable
  /// with `ps.shared`. Example: `@"x.adamw.mean"` gives `@x`.
  mlir::StringAttr getRoot(mlir::StringAttr symbol) const;
  /// Returns the coordinates that store a variable: all whose stages use any variable with the
  /// same root. An unused parameter is stored on coordinate 0. Other unused variables, and
  /// variables whose root has `ps.shared`, are stored on all coordinates.
  llvm::SmallVector<int64_t> getHolders(mlir::StringAttr symbol) const;
  /// Returns the first stage that uses any variable with the same root; 0 if no stage does.
  int64_t getFirstStage(mlir::StringAttr symbol) const;
  /// Returns the (coordinate, accumulator) pairs whose sum is the step's total of `symbol`, in
  /// order of stages. Returns an empty list for a variable without adders.
  llvm::ArrayRef<std::pair<int64_t, mlir::StringAttr>>
  getAccumulators(mlir::StringAttr symbol) const;

private:
  void recordUses(mlir::func::FuncOp function);

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  llvm::SmallVector<mlir::func::FuncOp> functions;
  ir::Stages stages;
  llvm::DenseMap<mlir::StringAttr, std::set<int64_t>> users;    ///< stages, by root
  llvm::MapVector<mlir::StringAttr, mlir::Operation *> writers; ///< one write of each variable
  /// A stage, and whether the adding ops have the phase `backward_weight`.
  using Adder = std::pair<int64_t, bool>;
  Adder getAdder(mlir::Operation *op) const;
  llvm::MapVector<mlir::StringAttr, std::set<Adder>> adders; ///< by variable
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<std::pair<int64_t, mlir::StringAttr>>>
      accumulators;
};

/// Replaces `@update`, if any, by one function per pipeline coordinate (`@update.pp0`, ...). Each
/// function updates the parameters that the coordinate stores. Two kinds of values are reduced over
/// coordinates: variables that several stages add to, and sums over parameters (the global norm).
/// Sums over parameters count each parameter once. Fails if an op other than a sum combines
/// parameters.
mlir::LogicalResult splitUpdate(mlir::ModuleOp module, const StageVariables &variables);

} // namespace parashard::partition

#endif
