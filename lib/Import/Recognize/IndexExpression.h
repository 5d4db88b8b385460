// Declares expressions that compute the elements of a tensor from their indices. The importer uses
// these expressions to prove the form of masks. Example: the elements of a causal mask are key <=
// query.
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

/// An expression tree over the index variables. A `Linear` node is constant + sum of
/// coefficients[i] * index i. A `Table` node is an element of a constant tensor, and a `Leaf` node
/// is an element of another tensor. Coefficients are integers, but constants may be any numbers.
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
  /// Returns true if the tree depends on the index variable number `index`.
  bool dependsOn(unsigned index) const;
  /// Returns the value at `indices`; only for trees without leaves.
  double evaluate(const std::array<int64_t, kNumIndices> &indices) const;
};

ExpressionPtr makeConstant(double value);
/// Returns index variable number `index` (0 to kNumIndices - 1).
ExpressionPtr makeIndex(unsigned index);

/// Returns an expression for the element of `value` at `indices` (one expression per dim). Expands
/// constants, iota, arithmetic, comparisons, logical ops and movement ops. Other values become
/// leaves.
ExpressionPtr buildExpression(mlir::Value value, llvm::ArrayRef<ExpressionPtr> indices);

} // namespace parashard::import::recognize

#endif
