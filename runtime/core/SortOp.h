// Defines the instruction that sorts along a dim, and the instruction of its gradient.
#ifndef PSRT_CORE_SORTOP_H
#define PSRT_CORE_SORTOP_H

#include "runtime/core/LibraryOp.h"
#include "runtime/core/ProgramKinds.h"

namespace psrt {

/// Sorts rows stably. Writes `indices` and out[i] = x[indices[i]]. A NaN is larger than every
/// number. With `grad`, reads `indices` and moves the cotangents x of the sorted values to the
/// positions before sorting: out[indices[i]] = x[i]. Element k of a row is `k * inner` elements
/// after the row's first. Buffers: x, indices (i64), out; dense, of outer x size x inner elements.
struct SortOp {
  enum { X, Indices, Out, Buffers };
  bool grad = false, descending = false;
  Dtype dtype = Dtype::F32;
  int64_t outer = 0, size = 0, inner = 0;
  int64_t rows() const { return outer * inner; }
  int64_t elements() const { return rows() * size; }
  /// Returns the index of the first element of a row.
  int64_t first(int64_t row) const { return row / inner * size * inner + row % inner; }
  static constexpr const char *kCategory = "sort";
  const char *name() const { return grad ? "sort_grad" : "sort"; }
  NamedSizes sizes() const { return {{"rows", rows()}, {"columns", size}}; }
  bool writes(size_t buffer) const { return buffer == Out || (buffer == Indices && !grad); }
};

} // namespace psrt

#endif
