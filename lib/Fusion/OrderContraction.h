// Transposes contractions whose dims are in no matmul order.
#ifndef PARASHARD_LIB_FUSION_ORDERCONTRACTION_H
#define PARASHARD_LIB_FUSION_ORDERCONTRACTION_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Transposes the operands and the result of a contraction that is not a matmul, neither on its
/// operands' views nor on dense copies. The result has the form [batch, rows, inner] x [batch,
/// columns, inner] -> [batch, rows, columns], or has columns before rows if the bias belongs to the
/// rows. Other contractions stay as they are.
void orderContraction(ps::ContractOp contract);

} // namespace parashard::fusion

#endif
