// Checks that the programs of all pipeline coordinates communicate consistently.
#ifndef PARASHARD_LIB_PIPELINE_VERIFYCOMMUNICATION_H
#define PARASHARD_LIB_PIPELINE_VERIFYCOMMUNICATION_H

#include "dialects/rank/Rank.h"

namespace parashard::ps {

/// Returns the wait of a token, or null.
rank::WaitOp findWait(mlir::Value token);

/// Returns true if an op of a program may write a variable.
bool mayWrite(mlir::Operation *op, mlir::FlatSymbolRefAttr variable);

/// Checks the programs of one entry, one per pipeline coordinate. Sends and receives match in
/// order, value and type; members of a reduction issue it alike; and all programs reach their ends
/// when an entry completes only at the head of its queue on every member. Errors name the two ops
/// that do not match, or who waits for whom.
mlir::LogicalResult verifyCommunication(llvm::ArrayRef<rank::ProgramOp> programs);

} // namespace parashard::ps

#endif
