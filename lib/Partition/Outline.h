// Outlines runs into class functions, and builds the stage functions that call them.
#ifndef PARASHARD_LIB_PARTITION_OUTLINE_H
#define PARASHARD_LIB_PARTITION_OUTLINE_H

#include "dialects/rank/Rank.h"
#include "lib/IR/Stages.h"
#include "lib/Partition/Runs.h"
#include "llvm/ADT/StringMap.h"
#include <map>

namespace parashard::partition {

/// The pieces, arguments and results of a function that belong to one stage function.
struct StageContent {
  int64_t stage = 0; ///< for `update` and `count`: the pipeline coordinate
  llvm::SmallVector<Piece> pieces;
  llvm::SmallVector<unsigned> arguments, results; ///< indices in the original function
  /// Values received from and sent to other stages. The sender and the receiver identify a value by
  /// the same number (`ps.value`).
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> received, sent;
};

/// Returns the content of a stage function that contains all pieces of `function`.
StageContent takeAll(mlir::func::FuncOp function, const Pieces &pieces, int64_t stage);
/// Distributes the pieces of a function over the stages. A value that other stages use is sent by
/// the stage that produces it.
std::vector<StageContent> divide(mlir::func::FuncOp function, const Pieces &pieces,
                                 const ir::Stages &stages);

/// Outlines the functions of one module. All functions share the class functions.
class Outliner {
public:
  explicit Outliner(mlir::ModuleOp module) : symbols(module), builder(module.getContext()) {}

  /// Replaces `function` by one function `@stageN.ENTRY` for each of `contents`. Each run becomes a
  /// `rank.run`.
  void outline(mlir::func::FuncOp function, llvm::StringRef entry, const std::vector<Run> &runs,
               llvm::ArrayRef<StageContent> contents);

private:
  /// Returns the class function of a run. Builds the function if no equal run has one.
  mlir::func::FuncOp getClass(const Run &run);
  mlir::func::FuncOp buildClass(const Run &run);
  /// Returns a name for a new class: the class name of the segment's first run, if no class
  /// function of this name has the phase of the run. Otherwise returns the run's name. If the run's
  /// name is taken too, appends a number.
  std::string chooseName(const Run &run);
  /// Creates a stage function without a body, with the attributes of its arguments and results.
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
  llvm::StringMap<unsigned> taken;             ///< counters for name clashes, by name and phase
  std::map<int64_t, std::string> segmentNames; ///< by segment: class name of its first run
};

} // namespace parashard::partition

#endif
