// Computes the cost and the time of an op on one rank.
#ifndef PARASHARD_LIB_PIPELINE_LOCALCOST_H
#define PARASHARD_LIB_PIPELINE_LOCALCOST_H

#include "dialects/ps/Ps.h"
#include "lib/Costs/Cluster.h"

namespace parashard::pipeline {

/// Returns the local (per-rank) type of a value in a module of level 2.
mlir::Type getLocalType(mlir::Value value, ps::MeshOp mesh);

/// Returns the cost of an op on the types of one rank; zero if the op has no cost interface.
ps::OpCost getLocalCost(mlir::Operation *op, ps::MeshOp mesh);

/// Returns the seconds of an op on one rank, before ops are fused into kernels. This is the time of
/// its contractions or the time to write its results, whichever is longer. Reads do not count,
/// because fused ops read less from memory.
double getLocalSeconds(mlir::Operation *op, ps::MeshOp mesh, const costs::Device &device);

} // namespace parashard::pipeline

#endif
