// Finds nan or infinite weights before a save and after a load.
#ifndef PSRT_SESSION_FINITEWEIGHTS_H
#define PSRT_SESSION_FINITEWEIGHTS_H

#include "runtime/session/NamedTensors.h"

namespace psrt {

/// Returns whether a tensor is a parameter that is not frozen.
bool isTrained(const Program &program, const NamedTensor &tensor);

/// Fails with BadInput if one of `count` elements of a trained parameter is nan or infinite. `step`
/// is the number of completed steps, for the message. Frozen parameters and buffers are not
/// checked, since masks may contain infinities.
void checkFinite(const Program &program, const NamedTensor &tensor, const char *data, int64_t count,
                 int64_t step);

/// Returns the name of a parameter with nan or infinite values, or "". All processes must make the
/// same call, and get the same result.
std::string findBadWeight(Session &session, const NamedTensors &tensors);

} // namespace psrt

#endif
