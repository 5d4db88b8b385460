// What ps-offload moves to the host's memory.
#ifndef PARASHARD_LIB_PIPELINE_OFFLOAD_H
#define PARASHARD_LIB_PIPELINE_OFFLOAD_H

#include "dialects/rank/Rank.h"

namespace parashard::ps {

/// Marks the variables that the update alone uses, and has the update's runs fetch them, at least
/// `pieceBytes` at once. False where there are none.
bool offloadVariables(mlir::ModuleOp module, int64_t pieceBytes);

/// What times are reckoned by, of one rank.
struct OffloadRates {
  double flops = 0;       ///< of contractions a second, in f32
  double narrowFlops = 0; ///< the same of 16-bit types
  double memory = 0;      ///< bytes a second of the device's memory
  double host = 0;        ///< bytes a second between it and the host's, in each direction
};

/// Has what forward runs make for backward runs wait in the host's memory, where that lowers what
/// is kept at once and (`onlyHidden`) the copies run beside enough computation. False where nothing
/// is.
bool offloadValues(mlir::ModuleOp module, const OffloadRates &rates, bool onlyHidden);

} // namespace parashard::ps

#endif
