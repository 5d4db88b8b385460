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
  double saved = 0;      ///< bytes of activations that forward keeps for backward, per micro-batch
  double deferred = 0;   ///< bytes, of `saved` and others, that only gradients of weights still use
  double boundary = 0;   ///< bytes that a cut after this segment sends, in each direction
  double transient = 0;  ///< bytes in use while the segment runs, beside variables and saved bytes
  double parameters = 0; ///< bytes of parameters and of their 16-bit copies
  double constants = 0;  ///< bytes of constants and buffers
  double gradients = 0;  ///< bytes of gradients
  double states = 0;     ///< bytes of the optimizer's state
  double update = 0;     ///< seconds of the optimizer's kernels per step
  /// Seconds of the collectives over data axes: of the update, of gradients after the last
  /// micro-batch, and of gathered parameters (ZeRO-3) per micro-batch.
  double updateCommunication = 0, reduction = 0, forwardGathers = 0, backwardGathers = 0;
  /// Number of segments to go back: the reduction starts after the backward of that segment, since
  /// small gradients are reduced in buckets.
  int64_t reductionDelay = 0;

  double getSeconds() const { return forward.sum() + backwardInput.sum() + backwardWeight.sum(); }
};

/// The costs of a model under one sharding. Holds for any pipeline, schedule and number of
/// micro-batches.
struct ClassTable {
  std::vector<SegmentCost> segments; ///< in model order
  double sharedUpdate = 0;           ///< seconds of the update's ops that belong to no segment
};

/// Reads the table of a module at level `placed` without a pipeline and with one micro-batch.
/// `axes` are the mesh axes to price collectives for: those of the module, with any sizes and in
/// any order. Fails if the module has no training step.
llvm::Expected<ClassTable> readClassTable(mlir::ModuleOp module, const costs::Cluster &cluster,
                                          llvm::ArrayRef<ir::AxisSize> axes);

} // namespace parashard::planner

#endif
