// Estimates the time of running forward ops again.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTETIME_H
#define PARASHARD_LIB_MEMORY_RECOMPUTETIME_H

#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace parashard::memory {

/// Returns the cost of an op on one rank, in flop equivalents: its flops, plus 8 per byte written.
int64_t getTime(mlir::Operation *op, ps::MeshOp mesh);

/// Describes how many segments of `function` recompute ops, and the added time in percent.
std::string describeRecompute(mlir::func::FuncOp function);

} // namespace parashard::memory

#endif
