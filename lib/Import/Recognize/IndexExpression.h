// Declares expressions for the elements of a tensor over its indices, to prove the form of masks.
// Example: a causal mask is key <= query.
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

/// An expression tree over the index variables. `Linear` is constant + sum of coefficients[i] *
/// index i. Only constants may be non-integers.
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
  std::vector<ExpressionPtr> operands; ///< for Table and Leaf: the indices into `table` or `value`
  std::shared_ptr<ps::Tensor> table;
  mlir::Value value; ///< tensor of a Leaf, which is not constant

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

/// Returns an expression for the element of `value` at `indices` (one expression per dim). Follows
/// constants, iota, arithmetic, comparisons, logical ops and movement ops. Other values become
/// leaves.
ExpressionPtr buildExpression(mlir::Value value, llvm::ArrayRef<ExpressionPtr> indices);

} // namespace parashard::import::recognize

#endif
