// Declares helpers for arguments that are dims of a tensor.
#ifndef PARASHARD_LIB_IMPORT_PT2_DIMS_H
#define PARASHARD_LIB_IMPORT_PT2_DIMS_H

#include "lib/Import/Pt2/Convert.h"
#include "shared/Counts.h"

namespace parashard::import {

/// Returns the argument `name`, or `fallback` if it is missing, as a dim in [0, rank). Fails the
/// node and returns nullopt if the dim is out of range.
inline std::optional<int64_t> findDim(NodeConverter &n, llvm::StringRef name, int64_t rank,
                                      std::optional<int64_t> fallback = std::nullopt) {
  int64_t argument = fallback ? n.integer(name, *fallback) : n.integer(name);
  int64_t dim = wrapDim(argument, rank);
  if (dim < 0 || dim >= rank)
    (void)n.fail("has no dim " + llvm::Twine(argument) + " in a tensor with " +
                 describeCount(rank, "dim"));
  return n.failed() ? std::nullopt : std::optional(dim);
}

/// Fails the node and returns false if a dim is not in [0, rank).
inline bool checkDims(NodeConverter &n, llvm::ArrayRef<int64_t> wrapped, int64_t rank) {
  for (int64_t dim : wrapped)
    if (dim < 0 || dim >= rank)
      (void)n.fail("has a dim out of range in a tensor with " + describeCount(rank, "dim"));
  return !n.failed();
}

} // namespace parashard::import

#endif
