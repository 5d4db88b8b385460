// Describes the valid values of scalars such as learning rates.
#ifndef PSRT_CORE_SCALARRANGE_H
#define PSRT_CORE_SCALARRANGE_H

#include <string>

namespace psrt {

/// Returns a description of the valid range if `value` is outside of it, else "". A scalar must fit
/// f32, and a learning rate must be at least 0.
std::string describeScalarRange(const std::string &name, double value);

} // namespace psrt

#endif
