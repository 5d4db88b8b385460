// Weights that are nan or infinite: found before they are written, or after they were loaded.
#ifndef PSRT_SESSION_FINITEWEIGHTS_H
#define PSRT_SESSION_FINITEWEIGHTS_H

#include "runtime/session/NamedTensors.h"

namespace psrt {

/// Whether a tensor is a parameter that updates change.
bool isTrained(const Program &program, const NamedTensor &tensor);

/// Fails with BadInput where one of `count` elements of a trained parameter is nan or infinite.
/// `step`: how many steps are done. Frozen parameters and buffers may be infinite: masks are.
void checkFinite(const Program &program, const NamedTensor &tensor, const char *data, int64_t count,
                 int64_t step);

/// Returns the name of a parameter that has nan or infinite values; empty: none has. The same call,
/// and the same answer, in every process.
std::string findBadWeight(Session &session, const NamedTensors &tensors);

} // namespace psrt

#endif
