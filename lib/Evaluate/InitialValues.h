// Declares the initial values of variables.
#ifndef PARASHARD_LIB_EVALUATE_INITIALVALUES_H
#define PARASHARD_LIB_EVALUATE_INITIALVALUES_H

#include "dialects/ps/Ps.h"

namespace parashard::evaluate {

/// Returns the unsharded initial value of `variable`: a constant, a tensor of a file (an archive,
/// an ONNX file or a safetensors file), random numbers keyed by (seed, name, element), or zeros.
mlir::FailureOr<ps::Tensor> getInitialValue(ps::VariableOp variable, uint64_t seed);

} // namespace parashard::evaluate

#endif
