// Declares the verifier of sizes and marks that passes of every level rely on.
#ifndef PARASHARD_DIALECTS_PS_VERIFYMODULE_H
#define PARASHARD_DIALECTS_PS_VERIFYMODULE_H

#include "mlir/IR/BuiltinOps.h"

namespace parashard::ps {

/// Verifies the constraints of every level. Fails after a diagnostic.
/// - (module_c1) tensors have static shapes of at most 2^40 elements, ignoring dims of size 0.
/// - (module_c2) marks that count or number something are i64 in their range.
/// - (module_c3) the mesh has at most 2^20 devices.
/// - (module_c4) phases of ops in @count, @micro_batch, @evaluate and @update fit the function, and
///   do not precede the phase of an operand.
/// - (module_c5) shardings name axes of the mesh; a variable's sharding has one entry per dim.
mlir::LogicalResult verifyModule(mlir::ModuleOp module);

} // namespace parashard::ps

#endif
