// The runs that a partitioned function is made of, and when two of them are of one class.
#ifndef PARASHARD_LIB_PARTITION_RUNS_H
#define PARASHARD_LIB_PARTITION_RUNS_H

#include "dialects/ps/Ps.h"
#include <string>

namespace parashard::ps {

/// One (segment, phase), or one parameter's part of the update: what becomes one `rank.run`.
struct Run {
  Phase phase = Phase::Forward;
  std::optional<int64_t> segment;
  std::string name; ///< what its class is named after (`h` for blocks of the list `h`)

  /// In order; holds its own copies of what every run builds for itself.
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> inputs;        ///< from outside, by first use
  llvm::SmallVector<mlir::Attribute> variables; ///< symbols, by first use
  llvm::SmallVector<int64_t> keys;              ///< of random ops, by first use
  llvm::SmallVector<mlir::Value> results;       ///< used outside; the last `saved` by backward only
  int64_t saved = 0;
};

/// One piece of a function in execution order: a run, or an op that stands between runs (of
/// `@micro_batch` and `@evaluate`: before `run`, which uses it).
struct Piece {
  mlir::Operation *between = nullptr;
  unsigned run = 0;
};

/// A function cut into pieces.
struct Pieces {
  std::vector<Run> runs;
  llvm::SmallVector<Piece> order;
};

/// The runs of `@micro_batch` or `@evaluate`, in order, each behind the gathers of parameters that
/// it needs. Fails at an op without a segment, and where a value is used by a run before the one
/// that makes it.
mlir::FailureOr<Pieces> cutIntoSegments(mlir::func::FuncOp function);
/// All of `@count` as one run, of no segment.
Pieces cutCount(mlir::func::FuncOp function);
/// The runs of `@update`: collectives on what is read, then what all parameters share, then each
/// parameter's part.
mlir::FailureOr<Pieces> cutUpdate(mlir::func::FuncOp function);

/// Fills inputs, variables, keys and results of runs whose `ops` are set; adds to each what it
/// builds for itself. Ops in no run stand between runs.
void completeRuns(mlir::func::FuncOp function, std::vector<Run> &runs,
                  const llvm::DenseSet<mlir::Operation *> &cloneable);

/// The run as a list of words: equal lists mean equal up to variables, keys and locations.
llvm::SmallVector<const void *> getSignature(const Run &run);

/// The variable that a read, a write or an accumulation names; null for other ops.
mlir::FlatSymbolRefAttr getVariable(mlir::Operation *op);

/// The mark on ops by which a run draws random numbers; nothing in evaluation.
std::optional<int64_t> getRandomKey(mlir::Operation *op);

} // namespace parashard::ps

#endif
