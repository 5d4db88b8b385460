// Computes a lower bound of the largest load of a pipeline's ranks.
#ifndef PARASHARD_LIB_PIPELINE_LEASTLOAD_H
#define PARASHARD_LIB_PIPELINE_LEASTLOAD_H

#include "lib/Pipeline/StagePartition.h"

namespace parashard::pipeline {

/// Returns a lower bound of `StagePartition::largestLoad` for all partitions of `problem`, without
/// a search. The bound is often exact. `problem` must be valid for `findPartition`.
int64_t getLeastLoad(const PartitionProblem &problem);

} // namespace parashard::pipeline

#endif
