// The factors that an op's dims are made of: what the sharding passes know about an op.
#ifndef PARASHARD_DIALECTS_PS_SHARDINGRULE_H
#define PARASHARD_DIALECTS_PS_SHARDINGRULE_H

#include "dialects/ps/PsAttributes.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace parashard::ps {

/// One factor of an op's iteration space.
struct RuleFactor {
  enum class Kind {
    Parallel,  ///< Splitting it splits every tensor that has it; the results need no combining.
    Reduction, ///< It is in operands only: splitting it leaves the results partial by `reduction`.
    Whole      ///< It may not be split; `reason` says why, in words for `--explain`.
  };
  int64_t size = 1;
  Kind kind = Kind::Parallel;
  ReductionKind reduction = ReductionKind::Sum;
  std::string reason;
  /// Whether places along it depend on each other although it is parallel: where it is split, the
  /// op's own partition makes them exchange what they need (the columns of a softmax).
  bool isCoupled = false;
};

/// Factor ids of one dim, major to minor; their sizes multiply to the dim's size.
using DimFactors = llvm::SmallVector<unsigned, 2>;
/// One entry per dim.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

/// The rule of one op: factors, and for each operand and result the factors of each dim. A factor
/// that an operand lacks is one along which the operand is the same for all (a broadcast).
/// A result that depends on partial operands: an op that is `linear` in an operand passes that
/// operand's partial sums on to its results (all other operands being whole).
struct ShardingRule {
  llvm::SmallVector<RuleFactor, 6> factors;
  llvm::SmallVector<TensorFactors, 3> operands;
  llvm::SmallVector<TensorFactors, 2> results;
  /// Operand numbers in which the op is linear together: f(sum of x) = sum of f(x) when all of
  /// these are partial over the same axis and the others are not. An op linear in each of two
  /// operands apart (a product) lists two groups.
  llvm::SmallVector<llvm::SmallVector<unsigned, 2>, 2> linear;

  unsigned addFactor(int64_t size, RuleFactor::Kind kind = RuleFactor::Kind::Parallel) {
    factors.push_back({size, kind, ReductionKind::Sum, {}, false});
    return factors.size() - 1;
  }
  unsigned addReduction(int64_t size, ReductionKind reduction) {
    factors.push_back({size, RuleFactor::Kind::Reduction, reduction, {}, false});
    return factors.size() - 1;
  }
  unsigned addWhole(int64_t size, llvm::StringRef reason) {
    factors.push_back({size, RuleFactor::Kind::Whole, ReductionKind::Sum, reason.str(), false});
    return factors.size() - 1;
  }

  /// All tensors have the same shape and the same factors: one a dim.
  static ShardingRule elementwise(llvm::ArrayRef<int64_t> shape, unsigned numOperands,
                                  unsigned numResults);
  /// `([i, k], [k, j]) -> ([i, j]), i = 8, k = 384 reduction(sum), j = 1152`
  void print(llvm::raw_ostream &os) const;
};

} // namespace parashard::ps

#endif
