// Cuts a partitioned function into runs, and decides which runs share a class.
#ifndef PARASHARD_LIB_PARTITION_RUNS_H
#define PARASHARD_LIB_PARTITION_RUNS_H

#include "dialects/ps/Ps.h"
#include <string>

namespace parashard::partition {

/// Ops that become one `rank.run`: the ops of one segment in one phase, all of `@count`, or a part
/// of `@update`, such as the update of one parameter.
struct Run {
  ps::Phase phase = ps::Phase::Forward;
  std::optional<int64_t> segment; ///< nullopt in `@update` and `@count`
  std::string name;               ///< base of the class name (`h` for blocks of the list `h`)

  /// Ops in execution order. `completeRuns` adds the ops that the run clones: cloneable ops, and
  /// views that another run computes.
  llvm::SmallVector<mlir::Operation *> ops;
  llvm::SmallVector<mlir::Value> inputs;        ///< values from outside, in order of first use
  llvm::SmallVector<mlir::Attribute> variables; ///< symbols, in order of first use
  llvm::SmallVector<int64_t> keys;              ///< keys of random ops, in order of first use
  llvm::SmallVector<mlir::Value> results;       ///< values that are used outside of the run
  int64_t saved = 0; ///< number of trailing results that only later phases use
};

/// One piece of a function in execution order: a run, or an op between runs.
struct Piece {
  mlir::Operation *between = nullptr; ///< null for a run
  /// The index of the run. For an op between runs of `@micro_batch` or `@evaluate`: the index of
  /// the next run, which uses the op's result. Not used for an op between runs of `@update`.
  unsigned run = 0;
};

/// A function cut into pieces.
struct Pieces {
  std::vector<Run> runs;
  llvm::SmallVector<Piece> order;
};

/// Cuts `@micro_batch` or `@evaluate` into runs, in order. If only one run uses the result of an
/// all-gather of a variable, the all-gather becomes an op before this run. Fails at an op without a
/// phase or a segment, and if a run uses a value that a later run produces.
mlir::FailureOr<Pieces> cutIntoSegments(mlir::func::FuncOp function);
/// Puts all ops of `@count` into one run without a segment.
Pieces cutCount(mlir::func::FuncOp function);
/// Cuts `@update` into runs and collectives between runs. The pieces form a sequence of waves,
/// followed by the update of each parameter. A wave has collectives, then the ops that parameters
/// share, then the conversions of gradients that the next wave reduces. Example: wave 0 has the
/// all-reduces of gradients, then computes the norm for clipping. Wave 1 has the all-reduce of the
/// norm over the pipeline axis, then computes the clip factor.
mlir::FailureOr<Pieces> cutUpdate(mlir::func::FuncOp function);

/// Fills inputs, variables, keys and results of runs whose `ops` are set, and adds to each run the
/// ops that the run clones. Treats each op that is neither in a run nor cloneable as an op between
/// runs.
void completeRuns(mlir::func::FuncOp function, std::vector<Run> &runs,
                  const llvm::DenseSet<mlir::Operation *> &cloneable);

/// Encodes a run as a list of words. Runs with equal lists share a class function. Such runs differ
/// at most in variables, keys and locations.
llvm::SmallVector<const void *> getSignature(const Run &run);

/// Returns the variable of a read, a write or an accumulation; null for other ops.
mlir::FlatSymbolRefAttr getVariable(mlir::Operation *op);

/// Returns the key by which a random op draws its numbers; nullopt for other ops and in evaluation.
std::optional<int64_t> getRandomKey(mlir::Operation *op);

} // namespace parashard::partition

#endif
