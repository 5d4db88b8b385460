// Matrix products and linear layers: all become `ps.contract`. Transposes of operands go into its
// labels, and reshapes that only merge leading dims around a product are undone, so that a
// decomposed export gives the same contractions as the original.
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

struct Operand {
  Value value;
  SmallVector<int64_t> labels;
};

Value contract(NodeConverter &n, const Operand &lhs, const Operand &rhs, ArrayRef<int64_t> labels) {
  return n.contract(lhs.value, lhs.labels, rhs.value, rhs.labels, labels);
}

/// The value whose leading dims `x` merges into its dim 0 while it keeps the last `kept` dims; `x`
/// when there is none.
Value unmerge(Value x, int64_t kept) {
  auto reshape = x.getDefiningOp<ps::ReshapeOp>();
  if (!reshape || getRank(x) != kept + 1)
    return x;
  ArrayRef<int64_t> from = getShape(reshape.getOperand()), to = getShape(x);
  if (int64_t(from.size()) <= kept + 1 || from.take_back(kept) != to.take_back(kept))
    return x;
  return reshape.getOperand();
}

/// x [..., k] times a matrix whose labels are [out, in] or [in, out], plus a bias [out].
Value buildLinear(NodeConverter &n, Value x, Value weight, bool outFirst, Value bias) {
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

LogicalResult convertLinear(NodeConverter &n) {
  Value x = n.tensor("input"), weight = n.tensor("weight");
  if (n.failed())
    return failure();
  if (getRank(weight) != 2)
    return n.fail("has a weight with " + Twine(getRank(weight)) + " dims; expected 2");
  return n.set(buildLinear(n, x, weight, /*outFirst=*/true, n.optionalTensor("bias")));
}

LogicalResult convertMm(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("mat2");
  return n.failed() ? failure() : n.set(buildLinear(n, lhs, rhs, /*outFirst=*/false, Value()));
}

/// beta * self + alpha * mat1 mat2
LogicalResult convertAddmm(NodeConverter &n) {
  Value self = n.tensor("self"), lhs = n.tensor("mat1"), rhs = n.tensor("mat2");
  if (n.failed())
    return failure();
  double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  if (alpha == 1 && beta == 1 && getRank(self) == 1)
    return n.set(buildLinear(n, lhs, rhs, /*outFirst=*/false, self));
  Value y = buildLinear(n, lhs, rhs, /*outFirst=*/false, Value());
  if (alpha != 1)
    y = n.make<ps::MulOp>(y, n.splat(getType(y), alpha));
  self = n.broadcast(self, getShape(y));
  if (beta != 1)
    self = n.make<ps::MulOp>(self, n.splat(getType(y), beta));
  return n.failed() ? failure() : n.set(n.make<ps::AddOp>(y, self));
}

/// Matrices [..., m, k] and [..., k, n]: batch dims of both are shared, a dim of size 1 against
/// more is dropped.
Value buildMatmul(NodeConverter &n, Value lhs, Value rhs) {
  int64_t batchRank = std::max({getRank(lhs), getRank(rhs), int64_t(2)}) - 2;
  int64_t m = batchRank, k = m + 1, columns = m + 2;
  SmallVector<int64_t> resultLabels;
  auto sizeOf = [&](Value x, int64_t i) -> int64_t {
    int64_t at = i - (batchRank - (getRank(x) - 2));
    return getRank(x) > 2 && at >= 0 ? getShape(x)[at] : 0;
  };
  // `other`: the sizes on the other side decide whether a unit dim is kept.
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

LogicalResult convertMatmul(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("other");
  if (n.failed())
    return failure();
  if (getRank(rhs) == 2 && getRank(lhs) >= 2)
    return n.set(buildLinear(n, lhs, rhs, /*outFirst=*/false, Value()));
  return n.set(buildMatmul(n, lhs, rhs));
}

/// `x` [batch, m, k] with its batch as the dims `leading`.
Value takeApart(NodeConverter &n, Value x, ArrayRef<int64_t> leading) {
  SmallVector<int64_t> shape(leading);
  llvm::append_range(shape, getShape(x).take_back(2));
  return n.reshape(x, shape);
}

/// A batch that an operand merged from several dims is taken apart again, in both.
LogicalResult convertBmm(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("mat2");
  if (n.failed())
    return failure();
  SmallVector<int64_t> leading(getShape(unmerge(lhs, 2)).drop_back(2));
  ArrayRef<int64_t> other = getShape(unmerge(rhs, 2)).drop_back(2);
  if (leading.size() == 1 || (other.size() > 1 && other.size() < leading.size()))
    leading.assign(other.begin(), other.end());
  Value product = buildMatmul(n, takeApart(n, lhs, leading), takeApart(n, rhs, leading));
  return n.set(n.reshape(product, n.getResultType().getShape()));
}

/// beta * self + alpha * batch1 batch2
LogicalResult convertBaddbmm(NodeConverter &n) {
  Value self = n.tensor("self"), lhs = n.tensor("batch1"), rhs = n.tensor("batch2");
  if (n.failed())
    return failure();
  Value y = buildMatmul(n, lhs, rhs);
  if (double alpha = n.number("alpha", 1); alpha != 1)
    y = n.make<ps::MulOp>(y, n.splat(getType(y), alpha));
  double beta = n.number("beta", 1);
  if (beta == 0)
    return n.set(y);
  self = n.broadcast(self, getShape(y));
  if (beta != 1)
    self = n.make<ps::MulOp>(self, n.splat(getType(y), beta));
  return n.failed() ? failure() : n.set(n.make<ps::AddOp>(y, self));
}

} // namespace

void addContractionConverters(ConverterTable &table) {
  table["aten.linear"] = convertLinear;
  table["aten.mm"] = convertMm;
  table["aten.addmm"] = convertAddmm;
  table["aten.matmul"] = convertMatmul;
  table["aten.bmm"] = convertBmm;
  table["aten.baddbmm"] = convertBaddbmm;
}

} // namespace parashard::import
