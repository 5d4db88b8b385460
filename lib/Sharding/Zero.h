// Splits variables over the axes on which the model is replicated (ZeRO).
#ifndef PARASHARD_LIB_SHARDING_ZERO_H
#define PARASHARD_LIB_SHARDING_ZERO_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// Splits variables over the data, expert and context axes on which they are replicated
/// (Rajbhandari et al., "ZeRO", 2020, arXiv 1910.02054). Stage 1 splits optimizer state, stage 2
/// also gradients, and stage 3 also parameters, their copies and averages. Must run after the other
/// splits have been propagated; `propagateZeroSplits` propagates the new ones.
void splitForZero(ShardingGraph &graph, int64_t stage);

} // namespace parashard::sharding

#endif
