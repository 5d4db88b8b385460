// Describes the valid values of hyperparameters such as learning rates, and their forms.
#ifndef PSRT_CORE_SCALARRANGE_H
#define PSRT_CORE_SCALARRANGE_H

#include "runtime/core/ProgramKinds.h"
#include <string>

namespace psrt {

/// Returns a description of the valid range if `value` is outside of it, else "". `name` may name
/// the scalar of a group, such as "lr.1". Any scalar must fit f32.
std::string describeScalarRange(const std::string &name, double value);

/// Returns the value that a scalar of this form has for the hyperparameter x.
double computeForm(ScalarForm form, double x);

} // namespace psrt

#endif
