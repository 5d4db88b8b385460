// Checks that the programs of all pipeline coordinates communicate consistently.
#ifndef PARASHARD_LIB_PIPELINE_VERIFYCOMMUNICATION_H
#define PARASHARD_LIB_PIPELINE_VERIFYCOMMUNICATION_H

#include "dialects/rank/Rank.h"

namespace parashard::pipeline {

/// Returns the `rank.wait` of a token, or null.
rank::WaitOp findWait(mlir::Value token);

/// Returns true if `op` writes `variable`, or is a run that uses it.
bool mayWrite(mlir::Operation *op, mlir::FlatSymbolRefAttr variable);

/// Checks the programs of one entry, one per pipeline coordinate:
/// - Sends and receives match in order, value and type.
/// - The members of a reduction start equal operations.
/// - All programs reach their ends. An operation completes when it is at the head of its queue on
///   every member.
///
/// Errors name the two ops that do not match, or the coordinates that wait for each other.
mlir::LogicalResult verifyCommunication(llvm::ArrayRef<rank::ProgramOp> programs);

} // namespace parashard::pipeline

#endif
