// Propagates factor splits along ops and variables, in both directions, to a fixed point.
#ifndef PARASHARD_LIB_SHARDING_PROPAGATION_H
#define PARASHARD_LIB_SHARDING_PROPAGATION_H

#include "lib/Sharding/EdgeShardings.h"

namespace parashard::sharding {

/// Weight of what happens once per step, relative to what happens in each micro-batch: that of a
/// step with 4 micro-batches.
inline constexpr double kStepShare = 0.25;

/// Propagates splits between the tensors of each edge (Shardy's factor propagation), to all nodes
/// that are not fixed. The splits of an edge's tensors are projected to the rule's factors, merged,
/// and projected back. If tensors disagree, the split carried by the most bytes is offered to
/// tensors without a split. Edges of priority 0 reach their fixed point before edges of priority 1.
/// No split is ever removed, so the work is linear in edges times axes.
void propagateSplits(ShardingGraph &graph);

/// Propagates the splits of `nodes`, which changed since the last `propagateSplits`.
void propagateSplitsFrom(ShardingGraph &graph, llvm::ArrayRef<unsigned> nodes);

/// Adds the splits that the policy offers (`ShardingNode::later`) on axes that do not split the
/// node yet, and propagates them. Records the new axes of each node in `laterAxes`. Runs after
/// `propagateSplits`.
void propagateLaterSplits(ShardingGraph &graph);

/// Propagates the splits that `splitForZero` has added. Records the axes that are new on values of
/// the update in `laterAxes`, so that `choosePartials` may choose a partial sum instead of the
/// split.
void propagateZeroSplits(ShardingGraph &graph);

/// Replicates each split constant for which a user needs another sharding: slicing is free, while
/// gathering is not.
void replicateSharedConstants(ShardingGraph &graph);

/// Chooses the values and accumulated variables that stay partial, and sets `partial` of these
/// nodes. Runs after all dims have been split. A value stays partial if all of its uses are linear
/// in it, and if reducing later moves fewer bytes. On a tie, the producer reduces. Fixed nodes do
/// not change.
void choosePartials(ShardingGraph &graph);
/// Does the same with `known`, which remembers the shardings of ops between calls.
void choosePartials(ShardingGraph &graph, EdgeShardings &known);

} // namespace parashard::sharding

#endif
