// Contractions whose dims stand in an order that no matmul has.
#ifndef PARASHARD_LIB_FUSION_ORDERCONTRACTION_H
#define PARASHARD_LIB_FUSION_ORDERCONTRACTION_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Transposes the operands and the result of a contraction that is no matmul, neither on its
/// operands as they lie nor on dense copies of them, so that it is one: [batch, rows, inner] x
/// [batch, columns, inner] -> [batch, rows, columns], or with columns in front of rows where a bias
/// is of these. Others stay as they are.
void orderContraction(ps::ContractOp contract);

} // namespace parashard::fusion

#endif
