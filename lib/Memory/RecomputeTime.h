// Estimates the time of running forward ops again.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTETIME_H
#define PARASHARD_LIB_MEMORY_RECOMPUTETIME_H

#include "dialects/ps/Ps.h"
#include "lib/Costs/Cluster.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace parashard::memory {

/// Returns the time of an op on one rank in whole picoseconds (pipeline::getLocalSeconds). Sums of
/// integers, unlike sums of floats, do not depend on the order.
int64_t getTime(mlir::Operation *op, ps::MeshOp mesh, const costs::Device &device);

/// Describes how many segments of `function` recompute ops, and the added time in percent.
std::string describeRecompute(mlir::func::FuncOp function, const costs::Device &device);

} // namespace parashard::memory

#endif
