// Computes the seconds of kernels and library calls on one device.
#ifndef PARASHARD_LIB_COSTS_CALLCOST_H
#define PARASHARD_LIB_COSTS_CALLCOST_H

#include "lib/Costs/Cluster.h"

namespace parashard::costs {

/// The work of one kernel or library call on one rank.
struct Call {
  double flops = 0; ///< flops of matmuls, convolutions and attention (run on matrix units)
  Contraction kind = Contraction::Matmul;
  std::string type = "f32"; ///< element type of the operands: a key of `Device::matmul`
  double bytes = 0;         ///< bytes of the operands and results
  int64_t kernels = 1;      ///< number of launches
};

/// Returns the seconds of a call without its launches: the time to compute its flops or to move its
/// bytes, whichever is longer (the roofline; Williams et al., 2009).
double getSeconds(const Device &device, const Call &call);
/// Returns the seconds of the launches of a call.
double getLaunchSeconds(const Device &device, const Call &call);

} // namespace parashard::costs

#endif
