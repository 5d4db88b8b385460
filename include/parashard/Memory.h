// What backward keeps; level 5, placed: every buffer at an address.
#ifndef PARASHARD_MEMORY_H
#define PARASHARD_MEMORY_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <string>

namespace parashard {

/// In words, for a module at level `placed`: the bytes of a rank, when most of them are in use, and
/// the ten largest holders then; empty at other levels.
std::string explainMemory(mlir::ModuleOp module);

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Memory/Passes.h.inc"

} // namespace parashard

#endif
