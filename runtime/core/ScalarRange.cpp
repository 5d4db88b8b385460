// Describes the valid values of scalars such as learning rates.
#include "runtime/core/ScalarRange.h"
#include "runtime/core/Status.h"
#include <cfloat>
#include <cmath>

namespace psrt {

std::string describeScalarRange(const std::string &name, double value) {
  bool isRate = name == "lr" || name.starts_with("lr.");
  if (std::abs(value) <= FLT_MAX && !(isRate && value < 0))
    return "";
  return format("a number from %g to %g", isRate ? 0. : -double(FLT_MAX), double(FLT_MAX));
}

} // namespace psrt
