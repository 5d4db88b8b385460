// Represents the elements of a tensor as an expression over their indices, to prove the form of
// masks.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_INDEXEXPRESSION_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_INDEXEXPRESSION_H

#include "dialects/ps/Ps.h"
#include <array>
#include <memory>
#include <optional>

namespace parashard::import::recognize {

/// Number of index variables: batch, head, query, key.
inline constexpr unsigned kNumIndices = 4;

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

/// A tree over the index variables. `Linear` is constant + sum of coefficient * index. Values that
/// are not integers occur only as constants.
struct Expression {
  enum Kind {
    Linear,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Neg,
    Max,
    Min,
    Compare,
    And,
    Or,
    Not,
    Select,
    Table,
    Leaf
  };
  Kind kind = Linear;
  double constant = 0;
  std::array<int64_t, kNumIndices> coefficients{};
  ps::Predicate predicate = ps::Predicate::Eq; ///< predicate of a Compare
  std::vector<ExpressionPtr> operands; ///< of Table and Leaf: the indices into `table` or `value`
  std::shared_ptr<ps::Tensor> table;
  mlir::Value value; ///< value of a Leaf, which is not known at compile time

  bool isConstant() const;
  /// Returns true if the tree contains a leaf.
  bool hasLeaf() const;
  /// Returns true if the tree depends on an index variable.
  bool dependsOn(unsigned index) const;
  /// Returns the value at `indices`; only for trees without leaves.
  double evaluate(const std::array<int64_t, kNumIndices> &indices) const;
};

/// Return a constant, and index variable number `index` (0 to kNumIndices - 1).
ExpressionPtr makeConstant(double value);
ExpressionPtr makeIndex(unsigned index);

/// Returns the element of `value` at `indices`, which has one expression per dim. Follows
/// constants, iota, arithmetic, comparisons, logic and movement; anything else becomes a leaf.
ExpressionPtr buildExpression(mlir::Value value, llvm::ArrayRef<ExpressionPtr> indices);

} // namespace parashard::import::recognize

#endif
