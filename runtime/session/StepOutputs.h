// Joins the outputs that a training step keeps for each of its micro-batches.
#ifndef PSRT_SESSION_STEPOUTPUTS_H
#define PSRT_SESSION_STEPOUTPUTS_H

#include "runtime/session/Session.h"

namespace psrt {

/// Returns the shape of an output of an entry. For an output with a batch dim, this dim has the
/// samples of all micro-batches. Example: [4, 10] and 2 micro-batches give [8, 10].
std::vector<int64_t> wholeShape(const EntryPoint &entry, const Output &output);

/// Copies an output of the step entry to `whole` in every process, in the order of the samples. An
/// output without a batch dim is that of the last micro-batch.
void readStepOutput(Session &session, const EntryPoint &entry, const Output &output, char *whole);

} // namespace psrt

#endif
