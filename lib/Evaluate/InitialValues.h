// The value that a variable begins with.
#ifndef PARASHARD_LIB_EVALUATE_INITIALVALUES_H
#define PARASHARD_LIB_EVALUATE_INITIALVALUES_H

#include "dialects/ps/Ps.h"

namespace parashard {

/// The initial value of `variable`, whole: from a constant, a file (a stored entry of an archive,
/// or a tensor of a safetensors file), a distribution keyed by (seed, name, element), or zero.
mlir::FailureOr<ps::Tensor> getInitialValue(ps::VariableOp variable, uint64_t seed);

} // namespace parashard

#endif
