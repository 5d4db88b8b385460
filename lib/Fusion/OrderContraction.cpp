// Transposes contractions whose dims are not in the order of a matmul.
#include "OrderContraction.h"
#include "Views.h"

using namespace mlir;
using namespace parashard;
using namespace parashard::fusion;
using Labels = SmallVector<int64_t>;

static StridedView getDense(Value value) {
  // Stops at any op, so that the view is dense.
  return *getView(value, [](Operation *) { return true; });
}

/// Returns true if the contraction has a matmul form on dense operands. Ignores the strides of
/// operands that are views: another op may require a dense copy of the view, and the contraction
/// then reads this copy.
static bool isMatmul(ps::ContractOp contract) {
  return getMatmul(contract, getDense(contract.getLhs()), getDense(contract.getRhs())).has_value();
}

static int64_t findIndex(ArrayRef<int64_t> labels, int64_t label) {
  return llvm::find(labels, label) - labels.begin();
}

/// Transposes `value` from the dim order of the labels `from` to the order of `to`.
static Value transpose(OpBuilder &b, ps::ContractOp contract, Value value, ArrayRef<int64_t> from,
                       ArrayRef<int64_t> to) {
  if (from == to)
    return value;
  SmallVector<int64_t> permutation;
  for (int64_t label : to)
    permutation.push_back(findIndex(from, label));
  auto result = ps::TransposeOp::create(b, contract.getLoc(), value, permutation);
  ps::copyMarks(contract, result);
  return result;
}

void fusion::orderContraction(ps::ContractOp contract) {
  // A contraction with a bias gradient or an activation is already in order.
  if (isMatmul(contract) || contract.getSums() || contract.hasActivation())
    return;
  Labels batch, rows, columns, inner;
  for (int64_t label : contract.getResultLabels()) {
    bool inLeft = llvm::is_contained(contract.getLhsLabels(), label);
    bool inRight = llvm::is_contained(contract.getRhsLabels(), label);
    (inLeft && inRight ? batch : inLeft ? rows : columns).push_back(label);
  }
  for (int64_t label : contract.getLhsLabels())
    if (!llvm::is_contained(contract.getResultLabels(), label))
      inner.push_back(label);
  auto join = [](Labels labels, const Labels &second, const Labels &third) {
    labels.append(second);
    labels.append(third);
    return labels;
  };
  // The bias is added along the last dims of the result, which come from one operand.
  bool isLeftLast = contract.getBias() &&
                    llvm::is_contained(contract.getLhsLabels(), contract.getResultLabels().back());
  Labels lhs = join(batch, rows, inner), rhs = join(batch, columns, inner),
         result = isLeftLast ? join(batch, columns, rows) : join(batch, rows, columns);
  OpBuilder b(contract);
  Value left = transpose(b, contract, contract.getLhs(), contract.getLhsLabels(), lhs);
  Value right = transpose(b, contract, contract.getRhs(), contract.getRhsLabels(), rhs);
  SmallVector<int64_t> shape;
  for (int64_t label : result)
    shape.push_back(contract.getType().getDimSize(findIndex(contract.getResultLabels(), label)));
  // The clone keeps the bias and scales.
  auto ordered = cast<ps::ContractOp>(b.clone(*contract));
  ordered.getLhsMutable().assign(left);
  ordered.getRhsMutable().assign(right);
  ordered.setLhsLabels(lhs);
  ordered.setRhsLabels(rhs);
  ordered.setResultLabels(result);
  ordered.getResult().setType(contract.getType().clone(shape));
  contract.getResult().replaceAllUsesWith(
      transpose(b, contract, ordered.getResult(), result, contract.getResultLabels()));
  contract.erase();
}
