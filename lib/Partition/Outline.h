// Makes class functions of runs, and stage functions that run them.
#ifndef PARASHARD_LIB_PARTITION_OUTLINE_H
#define PARASHARD_LIB_PARTITION_OUTLINE_H

#include "dialects/rank/Rank.h"
#include "lib/Partition/Runs.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace parashard::ps {

/// Outlines functions of one module; classes are shared between them.
class Outliner {
public:
  explicit Outliner(mlir::ModuleOp module) : symbols(module), builder(module.getContext()) {}

  /// Replaces `function` by `@stage0.NAME` with a run for each of `pieces.runs`.
  void outline(mlir::func::FuncOp function, const Pieces &pieces);

private:
  /// The class function of a run: an equal one that is there already, or a new one.
  mlir::func::FuncOp getClass(const Run &run);
  mlir::func::FuncOp buildClass(const Run &run);
  /// A name for a new class: that of the run's segment if it has one, with a number if taken.
  std::string chooseName(const Run &run);
  rank::RunOp buildRun(mlir::Location loc, const Run &run, mlir::func::FuncOp callee,
                       mlir::IRMapping &values, mlir::Value microBatch);

  mlir::SymbolTable symbols;
  mlir::OpBuilder builder;
  std::map<llvm::SmallVector<const void *>, mlir::func::FuncOp> classes;
  llvm::StringMap<unsigned> taken;             ///< numbers given to classes of one name and phase
  std::map<int64_t, std::string> segmentNames; ///< the class that a segment first ran
};

} // namespace parashard::ps

#endif
