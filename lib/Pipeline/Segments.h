// Segments: one instance of a repeated block each, or what stands between blocks.
#ifndef PARASHARD_LIB_PIPELINE_SEGMENTS_H
#define PARASHARD_LIB_PIPELINE_SEGMENTS_H

#include "dialects/ps/Ps.h"

namespace parashard::ps {

/// Gives every op of `function` (one block) its segment: forward ops by the block of their module
/// path, or, where no op has one, by repetition in the op list; backward ops that of their origin.
/// Raised or lowered where dataflow asks for it: forward values flow to equal or later
/// segments, backward ones to equal or earlier ones. Returns the number of segments.
int64_t assignSegments(mlir::func::FuncOp function);

/// For a list of op classes, the length of the unit that repeats over its longest stretch, and the
/// place where that begins; {0, 0} when nothing of at least `minUnit` ops repeats.
struct Repetition {
  int64_t first = 0;
  int64_t unit = 0;
  int64_t count = 0;
};
Repetition findRepetition(llvm::ArrayRef<unsigned> classes, int64_t minUnit);

} // namespace parashard::ps

#endif
