// Converts MatMul, Gemm and Einsum.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertMatMul(OnnxNode &n) {
  Value lhs = n.input(0), rhs = n.input(1);
  if (n.failed())
    return failure();
  if (getRank(lhs) == 3 && getRank(rhs) == 3 && getShape(lhs)[0] == getShape(rhs)[0])
    return n.set(buildBatchMatmul(n, lhs, rhs));
  return n.set(buildMatmul(n, lhs, rhs));
}

Value scale(OnnxNode &n, Value x, double factor) {
  return factor == 1 ? x : n.make<ps::MulOp>(x, n.splat(getType(x), factor));
}

/// Builds alpha * A B + beta * C. transA and transB transpose A and B.
LogicalResult convertGemm(OnnxNode &n) {
  Value lhs = n.input(0), rhs = n.input(1), bias = n.optionalInput(2);
  double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  if (n.failed())
    return failure();
  if (getRank(lhs) != 2 || getRank(rhs) != 2)
    return n.fail("has operands of " + Twine(getRank(lhs)) + " and " +
                  describeCount(getRank(rhs), "dim") + "; expected 2");
  if (n.integer("transA", 0))
    lhs = n.swapDims(lhs, 0, 1);
  bool outFirst = n.integer("transB", 0);
  if (alpha == 1 && beta == 1 && bias && getRank(bias) == 1)
    return n.set(buildLinear(n, lhs, rhs, outFirst, bias));
  Value y = scale(n, buildLinear(n, lhs, rhs, outFirst, Value()), alpha);
  if (bias && beta != 0)
    y = n.make<ps::AddOp>(y, scale(n, n.broadcast(bias, getShape(y)), beta));
  return n.failed() ? failure() : n.set(y);
}

LogicalResult convertEinsum(OnnxNode &n) {
  SmallVector<Value> operands = n.inputs();
  if (n.failed() || operands.empty())
    return n.fail("has no operands");
  for (Value operand : operands)
    if (!isFloat(operand) || getElement(operand) != getElement(operands[0]))
      return n.fail("has an operand of type " + debugString(operand.getType()) +
                    "; all operands must have the same floating-point type");
  Value value = buildEinsum(n, n.string("equation", ""), operands);
  return n.failed() ? failure() : n.set(value);
}

} // namespace

void addOnnxContractionConverters(OnnxConverterTable &table) {
  table["MatMul"] = convertMatMul;
  table["Gemm"] = convertGemm;
  table["Einsum"] = convertEinsum;
}

} // namespace parashard::import
