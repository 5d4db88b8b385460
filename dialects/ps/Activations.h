// Declares scalar activation functions, for the evaluation of elementwise ops and matmul epilogues.
#ifndef PARASHARD_DIALECTS_PS_ACTIVATIONS_H
#define PARASHARD_DIALECTS_PS_ACTIVATIONS_H

#include "dialects/ps/PsAttributes.h"

namespace parashard::ps {

/// Return the GELU of x, and its derivative at x.
double evaluateGelu(GeluKind kind, double x);
double evaluateGeluSlope(GeluKind kind, double x);

} // namespace parashard::ps

#endif
