// Computes the time of running forward ops again.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTETIME_H
#define PARASHARD_LIB_MEMORY_RECOMPUTETIME_H

#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace parashard::memory {

/// Returns the time of an op on one rank by its cost interface. The unit is the time of one
/// floating-point operation. The time is the number of the op's operations, plus the time in which
/// its results are written to memory.
int64_t getTime(mlir::Operation *op, ps::MeshOp mesh);

/// Describes in words how many segments of `function` run ops again, and the added time.
std::string describeRecompute(mlir::func::FuncOp function);

} // namespace parashard::memory

#endif
