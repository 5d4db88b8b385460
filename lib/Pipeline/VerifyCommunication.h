// Whether the programs of all pipeline coordinates fit together.
#ifndef PARASHARD_LIB_PIPELINE_VERIFYCOMMUNICATION_H
#define PARASHARD_LIB_PIPELINE_VERIFYCOMMUNICATION_H

#include "dialects/rank/Rank.h"

namespace parashard::ps {

/// The wait of a token; null when there is none.
rank::WaitOp findWait(mlir::Value token);

/// Whether an op of a program may write a variable.
bool mayWrite(mlir::Operation *op, mlir::FlatSymbolRefAttr variable);

/// Checks the programs of one entry, one a pipeline coordinate: what is sent is received, in order,
/// as what it is; members of a reduction issue it alike; and all programs come to their ends when
/// an entry completes only at the head of its queue on every member. An error says which two do not
/// match, or who waits for whom.
mlir::LogicalResult verifyCommunication(llvm::ArrayRef<rank::ProgramOp> programs);

} // namespace parashard::ps

#endif
