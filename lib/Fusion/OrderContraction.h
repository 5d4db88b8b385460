// Transposes contractions whose dims are not in the order of a matmul.
#ifndef PARASHARD_LIB_FUSION_ORDERCONTRACTION_H
#define PARASHARD_LIB_FUSION_ORDERCONTRACTION_H

#include "dialects/ps/Ps.h"

namespace parashard::fusion {

/// Transposes the operands and the result of a contraction that has no matmul form even on dense
/// operands. The new contraction is [batch, rows, inner] x [batch, columns, inner] -> [batch, rows,
/// columns]. The columns come before the rows if the bias belongs to the rows.
void orderContraction(ps::ContractOp contract);

} // namespace parashard::fusion

#endif
