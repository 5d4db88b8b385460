// Splits variables over the axes on which the model is replicated (ZeRO).
#ifndef PARASHARD_LIB_SHARDING_ZERO_H
#define PARASHARD_LIB_SHARDING_ZERO_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::sharding {

/// Splits variables over the data, expert and context axes on which they are replicated
/// (Rajbhandari et al., "ZeRO", 2020, arXiv 1910.02054). Stage 1 splits optimizer state, and f32
/// parameters if the model uses only their 16-bit copies. Stage 2 also splits gradients. Stage 3
/// also splits all parameters and copies. An average is split like its parameter. Must run after
/// the other splits have been propagated; `propagateZeroSplits` propagates the new splits.
void splitForZero(ShardingGraph &graph, int64_t stage);

} // namespace parashard::sharding

#endif
