// Reads the costs of each segment from a small program, so that many layouts can be priced without
// compiling them.
#ifndef PARASHARD_LIB_PLANNER_CLASSTABLE_H
#define PARASHARD_LIB_PLANNER_CLASSTABLE_H

#include "lib/IR/OpTimes.h"
#include "lib/Planner/StepTime.h"

namespace parashard::planner {

/// Costs of one segment on one rank. Bytes of variables are those without splits over data axes.
struct SegmentCost {
  Breakdown forward, backwardInput, backwardWeight; ///< of one micro-batch
  double saved = 0; ///< bytes of activations that forward keeps for backward, per micro-batch
  /// Bytes that only gradients of weights use after the gradients of inputs are computed. Some of
  /// them are also in `saved`.
  double deferred = 0;
  double boundary = 0;  ///< bytes that a cut after this segment sends, in each direction
  double transient = 0; ///< bytes in use while the segment runs, beside variables and saved bytes
  /// Bytes of the parameters that the model uses: of 16-bit copies, if there are any.
  double parameters = 0;
  double constants = 0; ///< bytes of constants and buffers
  double gradients = 0; ///< bytes of gradients
  double reduced = 0;   ///< bytes of reduced gradients, from the reduction until the update
  double states = 0;    ///< bytes of the optimizer's state, and of f32 values with copies
  double update = 0;    ///< seconds of the optimizer's kernels per step, without their launches
  double updateLaunches = 0; ///< seconds that their launches take, however small the kernels are
  /// Seconds of the collectives over data axes: of the update, of gradients after the last
  /// micro-batch, and of gathered parameters (ZeRO-3) per micro-batch.
  double updateCommunication = 0, reduction = 0, forwardGathers = 0, backwardGathers = 0;
  /// The reduction starts after the backward of the segment that is this many positions earlier in
  /// the model, since small gradients are reduced in buckets.
  int64_t reductionDelay = 0;

  /// Adds the bytes of another segment's variables.
  void addVariables(const SegmentCost &other);
  /// Returns the bytes of the variables with a ZeRO stage and a number of data-parallel ranks.
  double getVariableBytes(int64_t zero, int64_t shards) const;

  double getSeconds() const { return forward.sum() + backwardInput.sum() + backwardWeight.sum(); }
};

/// A parameter that several segments use, such as a tied embedding. Each pipeline coordinate that
/// uses it holds it, and the coordinates sum its gradient. Bytes and seconds are part of the costs
/// of the first segment, too.
struct TiedParameter {
  llvm::SmallVector<int64_t, 2> segments; ///< that use it, in ascending order
  SegmentCost cost;                       ///< bytes of its variables, and the update
};

/// The costs of a model under one sharding. Holds for any pipeline, schedule and number of
/// micro-batches.
struct ClassTable {
  std::vector<SegmentCost> segments; ///< in model order
  double sharedUpdate = 0;           ///< seconds of the update's ops that belong to no segment
  std::vector<TiedParameter> tied;
  /// Bytes of each value that a pipeline sums before the update, such as the loss.
  std::vector<double> sums;
};

/// Reads the table of a module at level `placed` without a pipeline and with one micro-batch.
/// `axes` are the mesh axes to price collectives for: those of the module, with any sizes and in
/// any order. Fails if the module has no training step.
llvm::Expected<ClassTable> readClassTable(mlir::ModuleOp module, const costs::Cluster &cluster,
                                          llvm::ArrayRef<ir::AxisSize> axes);

} // namespace parashard::planner

#endif
