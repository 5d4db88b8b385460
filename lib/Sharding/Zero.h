// ZeRO: which variables are split over the axes that hold copies of the model.
#ifndef PARASHARD_LIB_SHARDING_ZERO_H
#define PARASHARD_LIB_SHARDING_ZERO_H

#include "lib/Sharding/ShardingGraph.h"

namespace parashard::ps {

/// Splits what belongs to parameters over the data, expert and context axes on which it is
/// replicated (Rajbhandari et al., "ZeRO", 2020, arXiv 1910.02054): from stage 1 on optimizer
/// state, from 2 on gradients too, from 3 on parameters, their copies and averages. The splits over
/// model axes must be propagated before, and the new ones after.
void splitForZero(ShardingGraph &graph, int64_t stage);

} // namespace parashard::ps

#endif
