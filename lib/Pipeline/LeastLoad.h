// Computes a lower bound of the largest load of a pipeline's ranks.
#ifndef PARASHARD_LIB_PIPELINE_LEASTLOAD_H
#define PARASHARD_LIB_PIPELINE_LEASTLOAD_H

#include "lib/Pipeline/StagePartition.h"

namespace parashard::pipeline {

/// Returns a weight that some rank must take in every partition. Needs no search. The bound is
/// often the smallest possible largest load itself, as for models of equal blocks between an
/// embedding and a head. `problem` must be valid for findPartition.
int64_t getLeastLoad(const PartitionProblem &problem);

} // namespace parashard::pipeline

#endif
