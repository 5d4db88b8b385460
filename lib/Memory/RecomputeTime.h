// Computes the time of running forward ops again.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTETIME_H
#define PARASHARD_LIB_MEMORY_RECOMPUTETIME_H

#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace parashard::memory {

/// Estimates the time of an op on one rank, in flops: the flops of the op, plus 8 per byte written.
int64_t getTime(mlir::Operation *op, ps::MeshOp mesh);

/// Describes in words how many segments of `function` run ops again, and the added time.
std::string describeRecompute(mlir::func::FuncOp function);

} // namespace parashard::memory

#endif
