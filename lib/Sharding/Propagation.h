// Factor propagation: splits flow along ops and variables, in both directions, to a fixpoint.
#ifndef PARASHARD_LIB_SHARDING_PROPAGATION_H
#define PARASHARD_LIB_SHARDING_PROPAGATION_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::ps {

/// Splits the dims of every node that is not fixed as its neighbours' factors are split (Shardy's
/// factor propagation): the splits of each edge's tensors are projected to the rule's factors,
/// merged and projected back. Splits only grow, so the work is linear in edges times axes. Edges of
/// priority 0 reach their fixpoint before those of priority 1. Where tensors disagree, the split
/// held by the most bytes is offered to those that have none; nobody's is taken away.
void propagateSplits(ShardingGraph &graph);

/// After `propagateSplits`: adds what nodes are offered later (`ShardingNode::later`), where the
/// axes split nothing of them yet, propagates that, and notes on each node which axes came so.
/// Nothing when nothing is offered.
void propagateLaterSplits(ShardingGraph &graph);

/// After `splitForZero`: propagates its splits. In the update these yield to partial sums: a sum is
/// scattered where it moves the fewest bytes, such as after a conversion to 16 bits.
void propagateZeroSplits(ShardingGraph &graph);

/// Constants whose users want them split differently become whole: a slice costs nothing, a gather
/// does.
void replicateSharedConstants(ShardingGraph &graph);

/// Decides, with the dims fixed, which values and accumulated variables stay partial sums: those
/// whose every use is linear in them, where reducing further down moves fewer bytes. Ties are
/// reduced at the producer. Sets the `partial` of the nodes that are not fixed.
void choosePartials(ShardingGraph &graph);

} // namespace parashard::ps

#endif
