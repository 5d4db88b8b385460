// Builds all kinds of matmuls as `ps.contract`. Transposes of operands become part of the labels.
// Reshapes that merge leading dims around a matmul are removed, so that a decomposed graph has the
// same contractions as the original graph.
#include "lib/Import/BuildOps.h"

using namespace mlir;

namespace parashard::import {
namespace {

struct Operand {
  Value value;
  SmallVector<int64_t> labels;
};

Value contract(TensorBuilder &n, const Operand &lhs, const Operand &rhs, ArrayRef<int64_t> labels) {
  return n.contract(lhs.value, lhs.labels, rhs.value, rhs.labels, labels);
}

/// If `x` is a reshape that merges leading dims into dim 0 and keeps the last `kept` dims, returns
/// the operand of the reshape. Else returns `x`. Example for kept = 2: a reshape from [2, 3, 4, 5]
/// to [6, 4, 5].
Value unmerge(Value x, int64_t kept) {
  auto reshape = x.getDefiningOp<ps::ReshapeOp>();
  if (!reshape || getRank(x) != kept + 1)
    return x;
  ArrayRef<int64_t> from = getShape(reshape.getOperand()), to = getShape(x);
  if (int64_t(from.size()) <= kept + 1 || from.take_back(kept) != to.take_back(kept))
    return x;
  return reshape.getOperand();
}

/// Reshapes `x` [batch, m, k] to [leading..., m, k].
Value takeApart(TensorBuilder &n, Value x, ArrayRef<int64_t> leading) {
  SmallVector<int64_t> shape(leading);
  llvm::append_range(shape, getShape(x).take_back(2));
  return n.reshape(x, shape);
}

} // namespace

Value buildLinear(TensorBuilder &n, Value x, Value weight, bool outFirst, Value bias) {
  if (getRank(x) < 1 || getRank(weight) != 2) {
    (void)n.fail("multiplies " + debugString(x.getType()) + " by " + debugString(weight.getType()) +
                 "; expected at least 1 dim on the left, and a matrix on the right");
    return x;
  }
  Value rows = unmerge(x, 1);
  int64_t rank = getRank(rows), in = rank - 1, out = rank;
  auto labels = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> resultLabels(labels);
  resultLabels.back() = out;
  SmallVector<int64_t> weightLabels =
      outFirst ? SmallVector<int64_t>{out, in} : SmallVector<int64_t>{in, out};
  Value y = contract(n, {rows, labels}, {weight, weightLabels}, resultLabels);
  if (bias)
    y = n.make<ps::AddOp>(y, n.broadcast(bias, getShape(y)));
  SmallVector<int64_t> shape(getShape(x));
  shape.back() = getShape(y).back();
  return n.reshape(y, shape);
}

/// Builds the matmul of [..., m, k] and [..., k, n] with broadcast batch dims.
static Value contractMatrices(TensorBuilder &n, Value lhs, Value rhs) {
  int64_t batchRank = std::max({getRank(lhs), getRank(rhs), int64_t(2)}) - 2;
  int64_t m = batchRank, k = m + 1, columns = m + 2;
  SmallVector<int64_t> resultLabels;
  auto sizeOf = [&](Value x, int64_t i) -> int64_t {
    int64_t at = i - (batchRank - (getRank(x) - 2));
    return getRank(x) > 2 && at >= 0 ? getShape(x)[at] : 0;
  };
  // Drops a batch dim of size 1 if this batch dim is larger in `other`.
  auto makeOperand = [&](Value x, Value other, ArrayRef<int64_t> matrixLabels) {
    Operand operand{x, {}};
    SmallVector<int64_t> shape;
    for (int64_t i = 0; i < batchRank; ++i) {
      int64_t size = sizeOf(x, i), against = sizeOf(other, i);
      if (size == 0 || (size == 1 && against > 1))
        continue;
      operand.labels.push_back(i);
      shape.push_back(size);
    }
    llvm::append_range(operand.labels, matrixLabels);
    llvm::append_range(shape, getShape(x).take_back(matrixLabels.size()));
    operand.value = n.reshape(x, shape);
    return operand;
  };
  SmallVector<int64_t> lhsMatrix =
      getRank(lhs) == 1 ? SmallVector<int64_t>{k} : SmallVector<int64_t>{m, k};
  SmallVector<int64_t> rhsMatrix =
      getRank(rhs) == 1 ? SmallVector<int64_t>{k} : SmallVector<int64_t>{k, columns};
  for (int64_t i = 0; i < batchRank; ++i)
    resultLabels.push_back(i);
  if (getRank(lhs) > 1)
    resultLabels.push_back(m);
  if (getRank(rhs) > 1)
    resultLabels.push_back(columns);
  return contract(n, makeOperand(lhs, rhs, lhsMatrix), makeOperand(rhs, lhs, rhsMatrix),
                  resultLabels);
}

Value buildMatmul(TensorBuilder &n, Value lhs, Value rhs) {
  if (getRank(lhs) < 1 || getRank(rhs) < 1) {
    (void)n.fail("multiplies a tensor without dims");
    return lhs;
  }
  if (getRank(rhs) == 2 && getRank(lhs) >= 2)
    return buildLinear(n, lhs, rhs, /*outFirst=*/false, Value());
  return contractMatrices(n, lhs, rhs);
}

/// Builds the matmul of [b, m, k] and [b, k, n]. If a reshape merged several dims of one operand
/// into b, builds the matmul with these dims instead of b.
Value buildBatchMatmul(TensorBuilder &n, Value lhs, Value rhs) {
  if (getRank(lhs) != 3 || getRank(rhs) != 3) {
    (void)n.fail("multiplies " + debugString(lhs.getType()) + " by " + debugString(rhs.getType()) +
                 "; expected 3 dims");
    return lhs;
  }
  SmallVector<int64_t> leading(getShape(unmerge(lhs, 2)).drop_back(2));
  ArrayRef<int64_t> other = getShape(unmerge(rhs, 2)).drop_back(2);
  if (leading.size() == 1 || (other.size() > 1 && other.size() < leading.size()))
    leading.assign(other.begin(), other.end());
  Value matmul = contractMatrices(n, takeApart(n, lhs, leading), takeApart(n, rhs, leading));
  return n.reshape(matmul, {getShape(lhs)[0], getShape(lhs)[1], getShape(rhs)[2]});
}

} // namespace parashard::import
