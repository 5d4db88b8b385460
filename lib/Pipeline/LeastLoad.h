// A lower bound of the largest load of a pipeline's ranks.
#ifndef PARASHARD_LIB_PIPELINE_LEASTLOAD_H
#define PARASHARD_LIB_PIPELINE_LEASTLOAD_H

#include "lib/Pipeline/StagePartition.h"

namespace parashard::pipeline {

/// A weight that some rank takes at least in every partition, found without a search. Often the
/// smallest largest load itself, as for models of equal blocks between an embedding and a head.
/// The problem is one that findPartition accepts.
int64_t getLeastLoad(const PartitionProblem &problem);

} // namespace parashard::pipeline

#endif
