// Limits the shapes that tensors of a model may have.
#ifndef PARASHARD_LIB_IMPORT_SHAPES_H
#define PARASHARD_LIB_IMPORT_SHAPES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace parashard::import {

/// Maximum number of elements of a tensor. More elements indicate a damaged file.
inline constexpr int64_t kMaxElements = int64_t(1) << 40;

/// Returns true if no size is negative, and the product of the nonzero sizes is at most
/// `kMaxElements`.
inline bool isPossibleShape(llvm::ArrayRef<int64_t> shape) {
  int64_t count = 1;
  return llvm::all_of(shape, [&](int64_t size) {
    return size >= 0 && !llvm::MulOverflow(count, std::max<int64_t>(size, 1), count) &&
           count <= kMaxElements;
  });
}

inline constexpr llvm::StringLiteral kImpossibleShape =
    "a negative size, or more than 2^40 elements";

} // namespace parashard::import

#endif
