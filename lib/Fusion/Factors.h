// Factors of an iteration space: sizes that may be split and made equal, as reshapes ask for.
#ifndef PARASHARD_LIB_FUSION_FACTORS_H
#define PARASHARD_LIB_FUSION_FACTORS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace parashard::fusion {

/// Ids of factors, major to minor: together they index a dim (or the whole of several dims).
using FactorList = llvm::SmallVector<unsigned, 2>;

/// A set of factors. A factor is a leaf, or equal to another (union), or split into a list of
/// others.
class Factors {
public:
  /// A new leaf of `size` places (a list of none for size 1).
  FactorList make(int64_t size);
  /// The leaves that a list stands for, after all that was unified and cut before.
  FactorList resolve(llvm::ArrayRef<unsigned> list) const;
  /// Makes two lists the same leaves; false where sizes have no common refinement.
  bool unify(llvm::ArrayRef<unsigned> a, llvm::ArrayRef<unsigned> b);
  /// Cuts a list into consecutive parts of the given sizes (splitting leaves); false where it
  /// cannot.
  bool cut(llvm::ArrayRef<unsigned> list, llvm::ArrayRef<int64_t> sizes,
           llvm::SmallVectorImpl<FactorList> &parts);
  int64_t getSize(unsigned leaf) const { return nodes[leaf].size; }
  int64_t getSize(llvm::ArrayRef<unsigned> list) const;

private:
  struct Node {
    int64_t size;
    FactorList parts; ///< empty: a leaf; one: equal to it; more: split into them
  };
  void split(unsigned leaf, int64_t minor);
  llvm::SmallVector<Node, 16> nodes;
};

} // namespace parashard::fusion

#endif
