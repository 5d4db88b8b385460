// Which ops move data between ranks, and what each is for: words that the partitioner leaves on it.
#ifndef PARASHARD_LIB_PARTITION_COLLECTIVES_H
#define PARASHARD_LIB_PARTITION_COLLECTIVES_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// On collectives between ps-partition and ps-explain-collectives: [what, why], two strings.
inline constexpr llvm::StringLiteral kCauseMark = "ps.cause";

bool isCollective(mlir::Operation *op);
/// "result of ps.contract" and "a summed dim is split"
void setCause(mlir::Operation *collective, const llvm::Twine &what, const llvm::Twine &why);

} // namespace parashard::ps

#endif
