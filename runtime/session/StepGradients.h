// Reads the loss and the scale of the gradients of a step whose update has not run.
#ifndef PSRT_SESSION_STEPGRADIENTS_H
#define PSRT_SESSION_STEPGRADIENTS_H

#include "runtime/session/Session.h"

namespace psrt {

/// The loss and the divisor of the gradients after the last backward of a step, before the update.
struct StepGradients {
  double loss = 0;
  double divisor = 0; ///< divisor of accumulated gradients: the step's count times the loss scale
};

/// Reads the loss, the step's count and the loss scale before the update.
StepGradients readLossBeforeUpdate(Session &session);

} // namespace psrt

#endif
