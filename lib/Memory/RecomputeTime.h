// Computes the time of running forward ops again.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTETIME_H
#define PARASHARD_LIB_MEMORY_RECOMPUTETIME_H

#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace parashard::memory {

/// Returns the cost of an op on one rank, in flop equivalents: its flops, plus 8 per byte written.
int64_t getTime(mlir::Operation *op, ps::MeshOp mesh);

/// Returns a sentence with the number of segments of `function` that recompute ops, and the added
/// time.
std::string describeRecompute(mlir::func::FuncOp function);

} // namespace parashard::memory

#endif
