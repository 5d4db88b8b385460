// Predicts the time of class functions on one rank.
#ifndef PARASHARD_LIB_PLANNER_RUNTIMES_H
#define PARASHARD_LIB_PLANNER_RUNTIMES_H

#include "lib/IR/OpTimes.h"
#include "lib/Planner/StepTime.h"

namespace parashard::planner {

/// Predicts the times of runs. Replays each class function once: its ops run one after the other.
/// Its collectives run in a queue, concurrently with the ops between their start and their wait.
///
/// With measured times, the predicted times of a run's ops are scaled so that their sum is the
/// measured time. Collectives take the predicted time. Example: a run has 2 ms of ops and waits 1
/// ms for collectives. If 3 ms of ops were measured, each op takes 1.5 times as long, and the run
/// takes at most 4 ms.
class RunTimes {
public:
  /// `measured` may be null; it must outlive this object.
  RunTimes(mlir::ModuleOp module, const ir::OpTimes &times, const MeasuredRuns *measured = nullptr)
      : symbols(module), times(times), measured(measured) {}

  /// Returns the seconds of a run.
  const Breakdown &get(rank::RunOp run);
  /// Fails if a run with ops was not measured.
  llvm::Error checkMeasured(rank::RunOp run);

  /// Returns the factor by which a concurrent collective slows down an op. Returns 1 for measured
  /// times, because they include the slowdown.
  double getOverlapSlowdown() const { return measured ? 1 : times.getCluster().overlapSlowdown; }

private:
  const Breakdown &getModelled(rank::RunOp run);

  mlir::SymbolTable symbols;
  const ir::OpTimes &times;
  const MeasuredRuns *measured;
  llvm::DenseMap<mlir::Attribute, Breakdown> known; ///< by class function, as predicted
  llvm::StringMap<Breakdown> scaled;                ///< by label of the run, as measured
};

} // namespace parashard::planner

#endif
