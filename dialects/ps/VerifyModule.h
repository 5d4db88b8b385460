// Verifies the sizes and marks that passes of every level compute with.
#ifndef PARASHARD_DIALECTS_PS_VERIFYMODULE_H
#define PARASHARD_DIALECTS_PS_VERIFYMODULE_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::ps {

/// Checks what must hold at every level; fails after a diagnostic. The constraints, by label:
/// - (module_c1) tensors have static shapes of at most 2^40 elements, dims of size 0 not counted.
/// - (module_c2) marks that count or number something are i64 in their range.
/// - (module_c3) the mesh has at most 2^20 devices.
/// - (module_c4) phases of ops in @count, @micro_batch, @evaluate and @update are those of the
/// function, and not before that of an operand.
/// - (module_c5) shardings name axes of the mesh; a variable's has one entry a dim.
mlir::LogicalResult verifyModule(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
