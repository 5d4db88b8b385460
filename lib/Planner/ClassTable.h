// Reads the costs of each segment from a small program, so that many layouts can be priced without
// compiling them.
#ifndef PARASHARD_LIB_PLANNER_CLASSTABLE_H
#define PARASHARD_LIB_PLANNER_CLASSTABLE_H

#include "lib/IR/OpTimes.h"
#include "lib/Memory/Peak.h"
#include "lib/Planner/StepTime.h"

namespace parashard::planner {

/// Costs of one segment on one rank. Bytes of variables are computed as if no data axis split them.
struct SegmentCost {
  Breakdown forward, backwardInput, backwardWeight; ///< of one micro-batch
  double saved = 0; ///< bytes of activations that forward keeps for backward, per micro-batch
  /// Bytes that are kept for the gradients of weights after the gradients of inputs are computed.
  /// Some of these bytes are also in `saved`.
  double deferred = 0;
  double kept = 0;     ///< bytes of outputs that a step keeps until its end, per micro-batch
  double boundary = 0; ///< bytes that a cut after this segment sends, in each direction
  /// Bytes in use while the segment runs, without variables, saved values, kept outputs and reduced
  /// gradients.
  double transient = 0;
  /// Bytes of the parameters that the model uses. If a parameter has a 16-bit copy, the model uses
  /// the copy.
  double parameters = 0;
  double constants = 0; ///< bytes of constants and buffers
  double gradients = 0; ///< bytes of gradients
  double reduced = 0;   ///< bytes of reduced gradients, from the reduction until the update
  double states = 0; ///< bytes of optimizer state, and of f32 parameters and averages with copies
  double update = 0; ///< seconds of the optimizer's kernels per step, without their launches
  double updateLaunches = 0; ///< seconds of these launches, which do not depend on sizes
  /// Seconds of the collectives over data axes: in the update, for gradients after the last
  /// micro-batch, and for gathered parameters (ZeRO-3) per micro-batch.
  double updateCommunication = 0, reduction = 0, forwardGathers = 0, backwardGathers = 0;
  /// Small gradients are reduced in buckets, so the reduction of a segment's gradients may start
  /// late: after the backward of the segment that is this many positions earlier in the model.
  int64_t reductionDelay = 0;

  /// Adds the bytes of another segment's variables.
  void addVariables(const SegmentCost &other);
  /// Returns the bytes of the variables under ZeRO stage `zero` with `shards` data-parallel ranks.
  double getVariableBytes(int64_t zero, int64_t shards) const;

  double getSeconds() const { return forward.sum() + backwardInput.sum() + backwardWeight.sum(); }
};

/// A parameter that several segments use, such as a tied embedding. Each pipeline coordinate that
/// uses the parameter stores it, and the coordinates sum its gradient. The costs of the first
/// segment also include `cost`.
struct TiedParameter {
  llvm::SmallVector<int64_t, 2> segments; ///< segments that use the parameter, in ascending order
  SegmentCost cost; ///< bytes of the parameter's variables, and the costs of its update
};

/// The costs of a model under one sharding. Holds for any pipeline, schedule and number of
/// micro-batches.
struct ClassTable {
  std::vector<SegmentCost> segments; ///< in model order
  double sharedUpdate = 0;           ///< seconds of update ops that belong to no segment
  std::vector<TiedParameter> tied;
  /// Bytes of each value that the coordinates of a pipeline sum before the update, such as the
  /// loss.
  std::vector<double> sums;
};

/// Returns the table of a model with ZeRO 1, from a table without ZeRO. `whole` and `divided` are
/// tables without recomputation, without and with ZeRO 1. Their micro-batches may have another
/// number of samples than those of `table`. ZeRO 1 changes variables, the update and the reduction
/// of gradients. These depend neither on samples nor on recomputation, so they are those of
/// `divided`. Other costs change by the difference between `divided` and `whole`. Fails if the
/// tables do not have the same number of segments.
llvm::Expected<ClassTable> applyZero(ClassTable table, const ClassTable &whole,
                                     const ClassTable &divided);

/// Facts about a module that all of its tables share: they depend neither on the cluster nor on the
/// axes.
struct TableFacts {
  ir::OpCalls calls;
  std::optional<std::vector<memory::MemoryPeak>> peaks;
};

/// Reads the table of a module at level `placed` without a pipeline and with one micro-batch.
/// Prices collectives for `axes`: the axes of the module's mesh, but with any sizes and in any
/// order. Stores in `facts` the data that later tables of the same module also need. Fails if the
/// module has no training step.
llvm::Expected<ClassTable> readClassTable(mlir::ModuleOp module, const costs::Cluster &cluster,
                                          llvm::ArrayRef<ir::AxisSize> axes, TableFacts &facts);

} // namespace parashard::planner

#endif
