// Splits variables over the axes on which the model is replicated (ZeRO).
#ifndef PARASHARD_LIB_SHARDING_ZERO_H
#define PARASHARD_LIB_SHARDING_ZERO_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// Splits parameters, and the variables that belong to them, over the data, expert and context axes
/// on which they are replicated (Rajbhandari et al., "ZeRO", 2020, arXiv 1910.02054). Stage 1
/// splits optimizer state, stage 2 gradients as well, and stage 3 parameters, their copies and
/// averages as well. Must run after the splits over model axes have been propagated.
/// `propagateZeroSplits` propagates the new splits.
void splitForZero(ShardingGraph &graph, int64_t stage);

} // namespace parashard::sharding

#endif
