// Converts einsum, tensordot, inner and outer products, and diagonals.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Dims.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertEinsum(NodeConverter &n) {
  std::string equation = n.string("equation");
  n.markWithoutEffect({"path"}); // the order of the contractions
  SmallVector<Value> operands = n.tensors("tensors");
  if (n.failed())
    return failure();
  Type element = n.getResultType().getElementType();
  if (!isa<FloatType>(element))
    return n.fail("has integer operands, which is not supported");
  if (operands.empty() || llvm::is_contained(operands, Value()))
    return n.fail("has no operands, or a missing operand");
  for (Value &operand : operands)
    operand = n.convert(operand, element);
  Value value = buildEinsum(n, equation, operands);
  return n.failed() ? failure() : n.set(value);
}

LogicalResult sumOver(NodeConverter &n, Value lhs, ArrayRef<int64_t> lhsDims, Value rhs,
                      ArrayRef<int64_t> rhsDims) {
  if (!checkDims(n, lhsDims, getRank(lhs)) || !checkDims(n, rhsDims, getRank(rhs)))
    return failure();
  Value value = buildTensordot(n, lhs, lhsDims, rhs, rhsDims);
  return n.failed() ? failure() : n.set(value);
}

LogicalResult convertTensordot(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("other");
  if (n.failed())
    return failure();
  return sumOver(n, lhs, wrapDims(n.integers("dims_self"), getRank(lhs)), rhs,
                 wrapDims(n.integers("dims_other"), getRank(rhs)));
}

/// Converts an inner product over the last dims of both operands.
LogicalResult convertInner(NodeConverter &n) {
  Value lhs = n.tensor("self");
  Value rhs = n.tensor(n.find("vec") ? "vec" : n.find("tensor") ? "tensor" : "other");
  if (n.failed())
    return failure();
  if (getRank(lhs) == 0 || getRank(rhs) == 0) {
    ArrayRef<int64_t> shape = getRank(lhs) == 0 ? getShape(rhs) : getShape(lhs);
    return n.set(n.make<ps::MulOp>(n.broadcast(lhs, shape), n.broadcast(rhs, shape)));
  }
  return sumOver(n, lhs, {getRank(lhs) - 1}, rhs, {getRank(rhs) - 1});
}

LogicalResult convertOuter(NodeConverter &n) {
  Value lhs = n.tensor("self"), rhs = n.tensor("vec2");
  return n.failed() ? failure() : sumOver(n, lhs, {}, rhs, {});
}

/// Takes the elements (i, i + offset) of two dims. These elements become the last dim.
LogicalResult convertDiagonal(NodeConverter &n) {
  Value x = n.tensor("self");
  int64_t offset = n.integer("offset", 0);
  if (n.failed())
    return failure();
  std::optional<int64_t> dim1 = findDim(n, "dim1", getRank(x), 0);
  std::optional<int64_t> dim2 = findDim(n, "dim2", getRank(x), 1);
  if (!dim1 || !dim2 || *dim1 == *dim2)
    return n.fail("takes the diagonal of one dim; expected two different dims");
  int64_t row = *dim1, column = *dim2;
  if (offset < -getShape(x)[row] || offset > getShape(x)[column])
    return n.set(n.splat(n.getResultType(), 0));
  int64_t firstRow = std::max<int64_t>(-offset, 0), firstColumn = std::max<int64_t>(offset, 0);
  int64_t size = std::min(getShape(x)[row] - firstRow, getShape(x)[column] - firstColumn);
  if (size <= 0)
    return n.set(n.splat(n.getResultType(), 0));
  x = n.slice(x, row, firstRow, firstRow + size);
  x = n.slice(x, column, firstColumn, firstColumn + size);
  int64_t kept = std::min(row, column);
  x = takeDiagonal(n, x, kept, std::max(row, column));
  SmallVector<int64_t> order;
  for (int64_t dim = 0; dim < getRank(x); ++dim)
    if (dim != kept)
      order.push_back(dim);
  order.push_back(kept);
  return n.set(n.transpose(x, order));
}

} // namespace

void addEinsumConverters(ConverterTable &table) {
  table["aten.einsum"] = convertEinsum;
  table["aten.tensordot"] = convertTensordot;
  table["aten.diagonal"] = convertDiagonal;
  table["aten.inner"] = convertInner;
  table["aten.dot"] = convertInner;
  table["aten.vdot"] = convertInner;
  table["aten.mv"] = convertInner;
  table["aten.outer"] = convertOuter;
  table["aten.ger"] = convertOuter;
}

} // namespace parashard::import
