// Values of activations, for ops that have them and for matmuls that compute them besides.
#ifndef PARASHARD_DIALECTS_PS_ACTIVATIONS_H
#define PARASHARD_DIALECTS_PS_ACTIVATIONS_H

#include "dialects/ps/PsAttributes.h"

namespace parashard::ps {

/// The GELU of x, and its derivative there.
double evaluateGelu(GeluKind kind, double x);
double evaluateGeluSlope(GeluKind kind, double x);

} // namespace parashard::ps

#endif
