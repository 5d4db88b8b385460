// Arguments that name a dim of a tensor.
#ifndef PARASHARD_LIB_IMPORT_PT2_DIMS_H
#define PARASHARD_LIB_IMPORT_PT2_DIMS_H

#include "lib/Import/Pt2/Convert.h"

namespace parashard::import {

/// The argument `name` as a dim of a tensor with `rank` dims, counted from 0; `otherwise` where it
/// is absent. Nothing, and the node has failed, where there is no such dim.
inline std::optional<int64_t> findDim(NodeConverter &n, llvm::StringRef name, int64_t rank,
                                      std::optional<int64_t> otherwise = std::nullopt) {
  int64_t given = otherwise ? n.integer(name, *otherwise) : n.integer(name);
  int64_t dim = n.wrapDim(given, rank);
  if (dim < 0 || dim >= rank)
    (void)n.fail("has no dim " + llvm::Twine(given) + " in a tensor with " + llvm::Twine(rank) +
                 " dims");
  return n.failed() ? std::nullopt : std::optional(dim);
}

/// The same for a list; `given` are the dims as the model has them.
inline bool checkDims(NodeConverter &n, llvm::ArrayRef<int64_t> wrapped, int64_t rank) {
  for (int64_t dim : wrapped)
    if (dim < 0 || dim >= rank)
      (void)n.fail("has a dim out of range in a tensor with " + llvm::Twine(rank) + " dims");
  return !n.failed();
}

} // namespace parashard::import

#endif
