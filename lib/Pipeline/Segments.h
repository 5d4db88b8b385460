// Splits functions into segments: each is one instance of a repeated block, or the ops between
// blocks.
#ifndef PARASHARD_LIB_PIPELINE_SEGMENTS_H
#define PARASHARD_LIB_PIPELINE_SEGMENTS_H

#include "dialects/ps/Ps.h"

namespace parashard::pipeline {

/// Assigns a segment to every op of `function`, whose body must be a single block. Returns the
/// number of segments. The block of a forward op comes from its module path. If no path contains a
/// block, the blocks are the instances found by `findRepetition`. Backward ops get the segment of
/// their forward op. Segments are then raised or lowered until forward values are used in the same
/// or a later segment, and backward values in the same or an earlier segment.
int64_t assignSegments(mlir::func::FuncOp function);

/// Renumbers the segments of an inference entry. A segment gets the number of the segment of
/// `model` that reads the same variables, and at least the number of its predecessor. Both
/// functions must have segments.
void alignSegments(mlir::func::FuncOp entry, mlir::func::FuncOp model);

/// The longest stretch of a list of ops in which a sequence of at least `minUnit` ops repeats:
/// start of the stretch, length of the sequence, and number of its instances. All are 0 if nothing
/// repeats. `classes` has one number per op, which is the same for equal ops.
/// Example: 9 1 2 3 4 1 2 3 4 8 gives {first 1, unit 4, count 2}.
struct Repetition {
  int64_t first = 0;
  int64_t unit = 0;
  int64_t count = 0;
};
Repetition findRepetition(llvm::ArrayRef<unsigned> classes, int64_t minUnit);

} // namespace parashard::pipeline

#endif
