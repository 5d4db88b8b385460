// Propagates factor splits along ops and variables, in both directions, to a fixed point.
#ifndef PARASHARD_LIB_SHARDING_PROPAGATION_H
#define PARASHARD_LIB_SHARDING_PROPAGATION_H

#include "lib/Sharding/EdgeShardings.h"

namespace parashard::sharding {

/// Weight of work that is done once per step, relative to work that is done for each micro-batch.
/// The weight assumes 4 micro-batches per step.
inline constexpr double kStepShare = 0.25;

/// Propagates splits between the tensors of each edge (Shardy's factor propagation). Fixed nodes do
/// not change. The splits of an edge's tensors are projected to the rule's factors, merged, and
/// projected back. If tensors have different splits of a factor, only the split carried by the most
/// bytes is offered. A tensor takes the offer if the factor is whole in the tensor, or is split
/// over a prefix of the offered axes. Edges of priority 1 are propagated after the edges of
/// priority 0 have reached their fixed point. Splits are never removed, so the work is linear in
/// edges times axes.
void propagateSplits(ShardingGraph &graph);

/// Propagates the splits of `nodes`, which changed since the last `propagateSplits`.
void propagateSplitsFrom(ShardingGraph &graph, llvm::ArrayRef<unsigned> nodes);

/// Adds the splits that the policy offers (`ShardingNode::later`) on axes that do not split the
/// node yet. Then propagates the added splits. Records the new axes of each node in `laterAxes`.
/// Runs after `propagateSplits`.
void propagateLaterSplits(ShardingGraph &graph);

/// Propagates the splits that `splitForZero` has added. Records the axes that are new on values of
/// the update in `laterAxes`, so that `choosePartials` may choose a partial sum instead of the
/// split.
void propagateZeroSplits(ShardingGraph &graph);

/// Replicates each split constant for which a user needs another sharding. Slicing a replicated
/// constant is free, but gathering a split constant is not.
void replicateSharedConstants(ShardingGraph &graph);
/// Does the same. `known` caches the shardings of ops between calls.
void replicateSharedConstants(ShardingGraph &graph, EdgeShardings &known);

/// Chooses the values and accumulated variables that stay partial, and sets `partial` of these
/// nodes. Runs after all dims have been split. A value stays partial if all of its users are linear
/// in the value, and if reducing their results moves fewer bytes than reducing the value. On a tie,
/// the producer reduces the value. Fixed nodes do not change.
void choosePartials(ShardingGraph &graph);
/// Does the same, with a cache of the shardings of ops (`known`) that several calls can share.
void choosePartials(ShardingGraph &graph, EdgeShardings &known);

} // namespace parashard::sharding

#endif
