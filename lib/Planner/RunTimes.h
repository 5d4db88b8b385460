// Predicts the time of class functions on one rank.
#ifndef PARASHARD_LIB_PLANNER_RUNTIMES_H
#define PARASHARD_LIB_PLANNER_RUNTIMES_H

#include "lib/IR/OpTimes.h"
#include "lib/Planner/StepTime.h"

namespace parashard::planner {

/// Predicts the times of runs. A class function is replayed once: its ops run one after the other,
/// and its collectives run in a queue, beside the ops between their start and their wait.
class RunTimes {
public:
  RunTimes(mlir::ModuleOp module, const ir::OpTimes &times) : symbols(module), times(times) {}

  /// Returns the seconds of a run.
  const Breakdown &get(rank::RunOp run);

private:
  mlir::SymbolTable symbols;
  const ir::OpTimes &times;
  llvm::DenseMap<mlir::Attribute, Breakdown> known; ///< by class function
};

} // namespace parashard::planner

#endif
