// Reads the loss and the scale of the gradients of a step whose update has not run.
#include "runtime/session/StepGradients.h"
#include <cmath>

namespace psrt {

StepGradients readLossBeforeUpdate(Session &session) {
  StepGradients result;
  double sum = session.readScalar("loss.sum");
  result.divisor = session.readScalar("loss.count");
  result.loss = result.divisor != 0 ? sum / result.divisor : 0;
  if (double scale = session.readScalar("loss_scale"); !std::isnan(scale))
    result.divisor *= scale;
  return result;
}

} // namespace psrt
