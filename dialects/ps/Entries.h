// Declares what distinguishes inference entries: further functions that the host can call.
#ifndef PARASHARD_DIALECTS_PS_ENTRIES_H
#define PARASHARD_DIALECTS_PS_ENTRIES_H

#include "dialects/ps/Marks.h"
#include "mlir/IR/Operation.h"

namespace parashard::ps {

/// Returns true for functions, stage functions and programs of inference entries (`ps.entry`). Like
/// `@evaluate`, an inference entry has no gradient, but it may write buffers.
inline bool isInferenceEntry(mlir::Operation *function) { return function->hasAttr(kEntryMark); }

} // namespace parashard::ps

#endif
