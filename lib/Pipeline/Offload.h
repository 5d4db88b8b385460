// Offloads variables and saved activations to host memory.
#ifndef PARASHARD_LIB_PIPELINE_OFFLOAD_H
#define PARASHARD_LIB_PIPELINE_OFFLOAD_H

#include "dialects/rank/Rank.h"

namespace parashard::pipeline {

/// Sets `ps.host` on the variables that only the update uses, and inserts fetches before the runs
/// of the update. Each fetch has at least min(`pieceBytes`, an eighth of the offloaded bytes)
/// bytes, except the last one. Returns false if the update alone uses no variable.
bool offloadVariables(mlir::ModuleOp module, int64_t pieceBytes);

/// Rates of one rank, from which times are estimated.
struct OffloadRates {
  double flops = 0;       ///< f32 contraction flops per second
  double narrowFlops = 0; ///< the same for 16-bit types
  double memory = 0;      ///< bytes per second of device memory
  double host = 0;        ///< bytes per second between device and host, in each direction
};

/// Moves values that forward runs produce and backward runs use to host memory in the meantime, if
/// this lowers the peak of live bytes. With `onlyHidden`, moves only values whose copies overlap
/// fully with computation. Returns false if no value is moved.
bool offloadValues(mlir::ModuleOp module, const OffloadRates &rates, bool onlyHidden);

} // namespace parashard::pipeline

#endif
