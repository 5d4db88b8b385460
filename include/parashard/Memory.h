// Declares recomputation and level 5 (placed), which assigns an address to every buffer.
#ifndef PARASHARD_MEMORY_H
#define PARASHARD_MEMORY_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <string>

namespace parashard::memory {

/// Describes the memory of a module at level `placed`: bytes per rank, when the peak occurs, and
/// the ten largest buffers at the peak. Returns "" at other levels.
std::string explainMemory(mlir::ModuleOp module);

/// Checks that no rank of a module at level `placed` needs more than `limit` bytes. Otherwise emits
/// an error about `--memory-limit`. Counts the arena: variables, values and buffers of collectives.
mlir::LogicalResult checkMemoryLimit(mlir::ModuleOp module, int64_t limit);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Memory/Passes.h.inc"

} // namespace parashard::memory

#endif
