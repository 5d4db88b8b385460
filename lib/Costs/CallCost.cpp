// Estimates the seconds of kernels and library calls by the roofline model of a device.
#include "lib/Costs/CallCost.h"

namespace parashard::costs {

double getSeconds(const Device &device, const Call &call) {
  double moving = call.bytes / (device.memoryBandwidth * device.elementwiseEfficiency);
  double computing = call.flops > 0 ? device.getMatmulRate(call.type).getSeconds(call.flops) : 0;
  if (call.kind == Contraction::Attention)
    computing /= device.attentionForward;
  else if (call.kind == Contraction::AttentionGrad)
    computing /= device.attentionBackward;
  return std::max(moving, computing);
}

double getLaunchSeconds(const Device &device, const Call &call) {
  return double(call.kernels) * device.launch;
}

} // namespace parashard::costs
