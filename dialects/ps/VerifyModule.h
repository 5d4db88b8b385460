// Declares verifyModule, which checks shapes and discardable attributes at every level.
#ifndef PARASHARD_DIALECTS_PS_VERIFYMODULE_H
#define PARASHARD_DIALECTS_PS_VERIFYMODULE_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::ps {

/// Verifies the constraints of every level. Fails after a diagnostic.
/// - (module_c1) tensors have static shapes of at most 2^40 elements; a dim of size 0 counts as 1.
/// - (module_c2) the attributes with `Number` in Marks.def are i64 in [0, 2^40].
/// - (module_c3) the mesh has at most 2^20 devices.
/// - (module_c4) phases of ops in @count, @micro_batch, @evaluate and @update fit the function, and
///   do not precede the phase of an operand.
/// - (module_c5) shardings name axes of the mesh; a variable's sharding has one entry per dim.
mlir::LogicalResult verifyModule(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
