// Declares the dialect `ps`. Include this header to use the ops.
#ifndef PARASHARD_DIALECTS_PS_PS_H
#define PARASHARD_DIALECTS_PS_PS_H

#include "dialects/ps/CallBuilder.h"
#include "dialects/ps/Marks.h"
#include "dialects/ps/OpSupport.h"
#include "dialects/ps/PsAttributes.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/ps/PsDialect.h.inc"

#include "dialects/ps/PsInterfaces.h.inc"

#define GET_OP_CLASSES
#include "dialects/ps/PsOps.h.inc"

namespace parashard::ps {

/// Copies the attributes for phase, segment, origin and recomputation from `from` to `to`, but not
/// the shardings.
void copyMarks(mlir::Operation *from, mlir::Operation *to);
/// Returns the sharding of a value, or null if the value has none. The sharding of an op result is
/// in the op's `ps.shardings`, that of a function argument in the argument's `ps.sharding`.
ShardingAttr getSharding(mlir::Value value);
void setSharding(mlir::Value value, ShardingAttr sharding);
/// Returns the mesh of the module that contains `anywhere`, or null if the module has no mesh.
MeshOp getMesh(mlir::Operation *anywhere);
/// Returns the local type of a global type under a sharding. A factor of size n has
/// `mesh.getShardSize(n, axes)` local elements: ceil(n / k) over k shards, rounded up if an axis
/// has the kind `multiple`.
mlir::RankedTensorType getLocalType(mlir::RankedTensorType global, ShardingAttr sharding,
                                    MeshOp mesh);
/// Returns the identity of a reduction: its result over no elements of type `element`.
mlir::TypedAttr getIdentity(ReductionKind kind, mlir::Type element);

} // namespace parashard::ps

#endif
