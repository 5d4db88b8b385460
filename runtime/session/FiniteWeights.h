// Finds nan or infinite weights, before they are written or after they were loaded.
#ifndef PSRT_SESSION_FINITEWEIGHTS_H
#define PSRT_SESSION_FINITEWEIGHTS_H

#include "runtime/session/NamedTensors.h"

namespace psrt {

/// Returns whether a tensor is a parameter that updates change.
bool isTrained(const Program &program, const NamedTensor &tensor);

/// Fails with BadInput if one of `count` elements of a trained parameter is nan or infinite. `step`
/// is the number of steps done. Frozen parameters and buffers may be infinite, as masks are.
void checkFinite(const Program &program, const NamedTensor &tensor, const char *data, int64_t count,
                 int64_t step);

/// Returns the name of a parameter with nan or infinite values, or "". All processes make the same
/// call and get the same answer.
std::string findBadWeight(Session &session, const NamedTensors &tensors);

} // namespace psrt

#endif
