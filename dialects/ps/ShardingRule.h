// Declares sharding rules: the loop factors that index the dims of an op's operands and results.
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
    /// If sharded, the factor is sharded in every tensor that has it. The results stay complete.
    Parallel,
    Reduction, ///< only in operands; sharding it leaves the results partial by `reduction`
    Whole      ///< must not be sharded; `reason` is the explanation that `--explain` prints
  };
  int64_t size = 1;
  Kind kind = Kind::Parallel;
  ReductionKind reduction = ReductionKind::Sum;
  std::string reason;
  /// Whether elements along a parallel factor depend on each other, as the columns of a softmax do.
  /// If such a factor is sharded, the op's own partition exchanges the necessary data.
  bool isCoupled = false;
};

/// The factors of one dim, major to minor, as indices into `ShardingRule::factors`. The product of
/// their sizes is the dim's size.
using DimFactors = llvm::SmallVector<unsigned, 2>;
/// One entry per dim.
using TensorFactors = llvm::SmallVector<DimFactors, 4>;

/// The rule of one op: its factors, and the factors of each dim of each operand and result. Along a
/// factor that an operand lacks, the operand is broadcast. If all operands of one group in `linear`
/// are partial sums and the other operands are complete, the results are partial sums.
struct ShardingRule {
  llvm::SmallVector<RuleFactor, 6> factors;
  llvm::SmallVector<TensorFactors, 3> operands;
  llvm::SmallVector<TensorFactors, 2> results;
  /// Groups of operands in which the op is jointly linear: f(sum of x) = sum of f(x), if the
  /// operands of one group are partial over the same axis and the others are complete. Example:
  /// addition has one group {0, 1}; multiplication is linear in each operand separately and has the
  /// groups {0} and {1}.
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

  /// Returns the rule of an op whose tensors all have the same shape: one factor per dim.
  static ShardingRule elementwise(llvm::ArrayRef<int64_t> shape, unsigned numOperands,
                                  unsigned numResults);
  /// Prints a rule such as `([i, j], [j, k]) -> ([i, k]), i = 8, j = 384 reduction(sum), k = 1152`.
  void print(llvm::raw_ostream &os) const;
};

} // namespace parashard::ps

#endif
