// Reductions over dims: sum, mean, variance, extremes, any and all.
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// No dims means all of them.
SmallVector<int64_t> getDims(NodeConverter &n, Value x) {
  SmallVector<int64_t> dims = n.wrapDims(n.integers("dim"), getRank(x));
  if (dims.empty())
    dims = llvm::to_vector(llvm::seq<int64_t>(0, getRank(x)));
  return dims;
}

int64_t countElements(Value x, ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= getShape(x)[dim];
  return count;
}

LogicalResult convertSum(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  x = n.convert(x, n.getResultType().getElementType());
  return n.set(n.reduce(ps::ReductionKind::Sum, x, getDims(n, x), n.boolean("keepdim", false)));
}

Value buildMean(NodeConverter &n, Value x, ArrayRef<int64_t> dims, bool keepDims,
                int64_t correction = 0) {
  Value sum = n.reduce(ps::ReductionKind::Sum, x, dims, keepDims);
  return n.make<ps::DivOp>(sum, n.splat(getType(sum), double(countElements(x, dims) - correction)));
}

LogicalResult convertMean(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  x = n.convert(x, n.getResultType().getElementType());
  return n.set(buildMean(n, x, getDims(n, x), n.boolean("keepdim", false)));
}

LogicalResult convertVariance(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  SmallVector<int64_t> dims = getDims(n, x);
  int64_t correction =
      n.has("correction") ? int64_t(n.number("correction", 1)) : n.boolean("unbiased", true);
  Value mean = n.broadcast(buildMean(n, x, dims, true), getShape(x));
  Value centered = n.make<ps::SubOp>(x, mean);
  Value square = n.make<ps::MulOp>(centered, centered);
  return n.set(buildMean(n, square, dims, n.boolean("keepdim", false), correction));
}

template <ps::ReductionKind kKind> LogicalResult convertExtreme(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  if (n.getNumResults() > 1 && n.isUsed(1))
    return n.fail("gives the places of the extremes, which are not supported; use amax or amin");
  return n.set(n.reduce(kKind, x, getDims(n, x), n.boolean("keepdim", false)));
}

template <ps::ReductionKind kKind> LogicalResult convertLogical(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  x = n.convert(x, n.i1());
  return n.set(n.reduce(kKind, x, getDims(n, x), n.boolean("keepdim", false)));
}

} // namespace

void addReductionConverters(ConverterTable &table) {
  table["aten.sum"] = convertSum;
  table["aten.mean"] = convertMean;
  table["aten.var"] = convertVariance;
  table["aten.amax"] = convertExtreme<ps::ReductionKind::Max>;
  table["aten.amin"] = convertExtreme<ps::ReductionKind::Min>;
  table["aten.max.default"] = convertExtreme<ps::ReductionKind::Max>;
  table["aten.min.default"] = convertExtreme<ps::ReductionKind::Min>;
  table["aten.max.other"] = table.lookup("aten.maximum");
  table["aten.min.other"] = table.lookup("aten.minimum");
  table["aten.any"] = convertLogical<ps::ReductionKind::Max>;
  table["aten.all"] = convertLogical<ps::ReductionKind::Min>;
}

} // namespace parashard::import
