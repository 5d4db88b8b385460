// Represents the factors of an iteration space. Factors are split and unified to match reshapes.
#ifndef PARASHARD_LIB_FUSION_FACTORS_H
#define PARASHARD_LIB_FUSION_FACTORS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace parashard::fusion {

/// Ids of factors, major to minor, that together index a dim or several consecutive dims.
using FactorList = llvm::SmallVector<unsigned, 2>;

/// A set of factors. A factor is a leaf, equal to another factor (union), or split into a list of
/// factors.
class Factors {
public:
  /// Creates a leaf of the given size; returns an empty list for size 1.
  FactorList make(int64_t size);
  /// Returns the leaves that a list represents after all unifications and splits so far.
  FactorList resolve(llvm::ArrayRef<unsigned> list) const;
  /// Makes two lists have the same leaves. Returns false if this is not possible. Example: lists
  /// with the sizes [6, 4] and [2, 12] both become [2, 3, 4]. The sizes [4, 3] and [3, 4] cannot be
  /// unified.
  bool unify(llvm::ArrayRef<unsigned> a, llvm::ArrayRef<unsigned> b);
  /// Splits a list (and its leaves) into consecutive parts of the given sizes. Returns false if
  /// this is not possible.
  bool cut(llvm::ArrayRef<unsigned> list, llvm::ArrayRef<int64_t> sizes,
           llvm::SmallVectorImpl<FactorList> &parts);
  int64_t getSize(unsigned leaf) const { return nodes[leaf].size; }
  int64_t getSize(llvm::ArrayRef<unsigned> list) const;

private:
  struct Node {
    int64_t size;
    FactorList parts; ///< empty: a leaf; one: an equal factor; more: a split
  };
  void split(unsigned leaf, int64_t minor);
  llvm::SmallVector<Node, 16> nodes;
};

} // namespace parashard::fusion

#endif
