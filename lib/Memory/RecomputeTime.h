// What it costs to run forward ops again.
#ifndef PARASHARD_LIB_MEMORY_RECOMPUTETIME_H
#define PARASHARD_LIB_MEMORY_RECOMPUTETIME_H

#include "dialects/ps/Ps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <string>

namespace parashard {

/// Time of an op on one rank by its cost interface, in floating-point operations: its own, and so
/// many as run while the bytes that it writes reach memory.
int64_t getTime(mlir::Operation *op, ps::MeshOp mesh);

/// In words: how many segments of `function` run something again, and what that adds.
std::string describeRecompute(mlir::func::FuncOp function);

/// On the module: these words.
inline constexpr llvm::StringLiteral kRecomputeMark = "ps.recompute";

} // namespace parashard

#endif
