// Makes class functions of runs, and stage functions that run them.
#ifndef PARASHARD_LIB_PARTITION_OUTLINE_H
#define PARASHARD_LIB_PARTITION_OUTLINE_H

#include "dialects/rank/Rank.h"
#include "lib/IR/Stages.h"
#include "lib/Partition/Runs.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace parashard::ps {

/// What of a function's pieces one stage function has.
struct StageContent {
  int64_t stage = 0;
  llvm::SmallVector<Piece> pieces;
  llvm::SmallVector<unsigned> arguments, results; ///< of the function
  /// Values of other stages, and for them, each with its number: the same one on both sides.
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> received, sent;
};

/// All of a function, as stage `stage`.
StageContent takeAll(mlir::func::FuncOp function, const Pieces &pieces, int64_t stage);
/// Each stage's runs; a value that is made in one stage and used in others crosses.
std::vector<StageContent> divide(mlir::func::FuncOp function, const Pieces &pieces,
                                 const Stages &stages);

/// Outlines functions of one module; classes are shared between them.
class Outliner {
public:
  explicit Outliner(mlir::ModuleOp module) : symbols(module), builder(module.getContext()) {}

  /// Replaces `function` by `@stageN.NAME` for each of `contents`, with a run for each of its
  /// pieces; NAME is `entry`.
  void outline(mlir::func::FuncOp function, llvm::StringRef entry, const std::vector<Run> &runs,
               llvm::ArrayRef<StageContent> contents);

private:
  /// The class function of a run: an equal one that is there already, or a new one.
  mlir::func::FuncOp getClass(const Run &run);
  mlir::func::FuncOp buildClass(const Run &run);
  /// A name for a new class: that of the run's segment if it has one, with a number if taken.
  std::string chooseName(const Run &run);
  /// The stage function, with the marks of the arguments and results that it takes over.
  mlir::func::FuncOp createStage(mlir::func::FuncOp function, llvm::StringRef entry,
                                 const StageContent &content);
  mlir::func::FuncOp buildStage(mlir::func::FuncOp function, llvm::StringRef entry,
                                const std::vector<Run> &runs,
                                llvm::ArrayRef<mlir::func::FuncOp> callees,
                                const StageContent &content);
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
