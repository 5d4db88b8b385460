// Defines how a reduction combines two elements, for the op and for the evaluator's collectives.
#ifndef PARASHARD_DIALECTS_PS_COMBINE_H
#define PARASHARD_DIALECTS_PS_COMBINE_H

#include "dialects/ps/PsAttributes.h"
#include <algorithm>
#include <cmath>

namespace parashard::ps {

/// Returns the sum, the maximum or the minimum of two elements. Returns NaN if one of them is NaN.
inline double combine(ReductionKind kind, double x, double y) {
  if (kind == ReductionKind::Sum || std::isnan(x) || std::isnan(y))
    return x + y;
  return kind == ReductionKind::Max ? std::max(x, y) : std::min(x, y);
}

} // namespace parashard::ps

#endif
