// Reads arguments that name a dim of a tensor.
#ifndef PARASHARD_LIB_IMPORT_PT2_DIMS_H
#define PARASHARD_LIB_IMPORT_PT2_DIMS_H

#include "lib/Import/Pt2/Convert.h"

namespace parashard::import {

/// Returns the argument `name` as a dim of a tensor with `rank` dims, counted from 0. Returns
/// `fallback` if the argument is absent. Returns nullopt, after a failure of the node, if there is
/// no such dim.
inline std::optional<int64_t> findDim(NodeConverter &n, llvm::StringRef name, int64_t rank,
                                      std::optional<int64_t> fallback = std::nullopt) {
  int64_t argument = fallback ? n.integer(name, *fallback) : n.integer(name);
  int64_t dim = n.wrapDim(argument, rank);
  if (dim < 0 || dim >= rank)
    (void)n.fail("has no dim " + llvm::Twine(argument) + " in a tensor with " + llvm::Twine(rank) +
                 " dims");
  return n.failed() ? std::nullopt : std::optional(dim);
}

/// Fails the node if one of `wrapped` (dims counted from 0) is out of range. Returns false then.
inline bool checkDims(NodeConverter &n, llvm::ArrayRef<int64_t> wrapped, int64_t rank) {
  for (int64_t dim : wrapped)
    if (dim < 0 || dim >= rank)
      (void)n.fail("has a dim out of range in a tensor with " + llvm::Twine(rank) + " dims");
  return !n.failed();
}

} // namespace parashard::import

#endif
