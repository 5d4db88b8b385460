// The values that scalars such as learning rates take.
#ifndef PSRT_CORE_SCALARRANGE_H
#define PSRT_CORE_SCALARRANGE_H

#include <string>

namespace psrt {

/// Returns what a scalar takes where it does not take `value`: f32 holds it, and rates are at least
/// 0. Empty: it takes the value.
std::string describeScalarRange(const std::string &name, double value);

} // namespace psrt

#endif
