// The elements of a tensor as an expression over their indices: what masks are proven with.
#ifndef PARASHARD_LIB_IMPORT_RECOGNIZE_INDEXEXPRESSION_H
#define PARASHARD_LIB_IMPORT_RECOGNIZE_INDEXEXPRESSION_H

#include "dialects/ps/Ps.h"
#include <array>
#include <memory>
#include <optional>

namespace parashard::recognize {

/// Number of index variables: batch, head, query, key.
inline constexpr unsigned kNumIndices = 4;

struct Expression;
using ExpressionPtr = std::shared_ptr<const Expression>;

/// A tree over the index variables. `Linear` is constant + sum of coefficient x index (floats are
/// constants only).
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
  ps::Predicate predicate = ps::Predicate::Eq; ///< of a Compare
  std::vector<ExpressionPtr> operands; ///< of Table and Leaf: the indices into `value` or `table`
  std::shared_ptr<ps::Tensor> table;
  mlir::Value value; ///< of a Leaf: something that is not known at compile time

  bool isConstant() const;
  /// Whether some leaf stands in the tree.
  bool hasLeaf() const;
  /// Whether the tree depends on an index variable.
  bool dependsOn(unsigned index) const;
  /// The value at a place; only for trees without leaves.
  double evaluate(const std::array<int64_t, kNumIndices> &place) const;
};

ExpressionPtr makeConstant(double value);
ExpressionPtr makeIndex(unsigned index);

/// The element of `value` at `indices`, one expression a dim. Constants, index sequences,
/// arithmetic, comparisons, logic and movement are read through; anything else is a leaf.
ExpressionPtr buildExpression(mlir::Value value, llvm::ArrayRef<ExpressionPtr> indices);

} // namespace parashard::recognize

#endif
