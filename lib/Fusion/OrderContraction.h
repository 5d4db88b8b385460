// Transposes contractions whose dims are not in the order of a matmul.
#ifndef PARASHARD_LIB_FUSION_ORDERCONTRACTION_H
#define PARASHARD_LIB_FUSION_ORDERCONTRACTION_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Transposes the operands and the result of a contraction, if the contraction would not have a
/// matmul form (`getMatmul`) even with dense operands. The new contraction is [batch, rows, inner]
/// x [batch, columns, inner] -> [batch, rows, columns]. If the contraction has a bias along the
/// rows, the result is [batch, columns, rows], because a bias is added along the last dims of the
/// result.
void orderContraction(ps::ContractOp contract);

} // namespace parashard::fusion

#endif
