// Converts matmuls and linear layers.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertLinear(NodeConverter &n) {
  Value x = n.tensor("input"), weight = n.tensor("weight");
  if (n.failed())
    return failure();
  if (getRank(weight) != 2)
    return n.fail("has a weight with " + describeCount(getRank(weight), "dim") + "; expected 2");
  return n.set(buildLinear(n, x, weight, /*outFirst=*/true, n.optionalTensor("bias")));
}

LogicalResult convertMm(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("mat2");
  return n.failed() ? failure() : n.set(buildLinear(n, lhs, rhs, /*outFirst=*/false, Value()));
}

/// Builds beta * self + alpha * mat1 mat2.
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
  if (beta == 0) // PyTorch does not read `self` then, so `self` may contain NaN
    return n.failed() ? failure() : n.set(y);
  self = n.broadcast(self, getShape(y));
  if (beta != 1)
    self = n.make<ps::MulOp>(self, n.splat(getType(y), beta));
  return n.failed() ? failure() : n.set(n.make<ps::AddOp>(y, self));
}

LogicalResult convertMatmul(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("other");
  if (n.failed())
    return failure();
  return n.set(buildMatmul(n, lhs, rhs));
}

LogicalResult convertBmm(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("mat2");
  return n.failed() ? failure() : n.set(buildBatchMatmul(n, lhs, rhs));
}

/// Builds beta * self + alpha * batch1 batch2.
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
