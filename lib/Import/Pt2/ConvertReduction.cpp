// Converts reductions over dims: sum, mean, product, max, min, argmax, argmin, any and all.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Dims.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertSum(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  x = n.convert(x, n.getResultType().getElementType());
  return n.set(n.reduce(ps::ReductionKind::Sum, x, n.reducedDims(x), n.boolean("keepdim", false)));
}

LogicalResult convertMean(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  x = n.convert(x, n.getResultType().getElementType());
  SmallVector<int64_t> dims = n.reducedDims(x);
  return n.set(buildMean(n, x, dims, n.boolean("keepdim", false)));
}

template <ps::ReductionKind kKind> LogicalResult convertExtreme(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  return n.set(n.reduce(kKind, x, n.reducedDims(x), n.boolean("keepdim", false)));
}

/// Converts max.dim and min.dim, which return values and indices.
template <ps::ReductionKind kKind> LogicalResult convertExtremeAndIndex(NodeConverter &n) {
  Value x = n.tensor("self");
  n.markTypeOnly({"keepdim"});
  if (n.failed())
    return failure();
  if (getRank(x) == 0)
    return n.fail("is over a tensor without dims, which is not supported");
  std::optional<int64_t> found = findDim(n, "dim", getRank(x));
  if (!found)
    return failure();
  int64_t dim = *found;
  Value index = findExtremumIndex(n, x, dim, kKind);
  if (n.isUsed(0) &&
      failed(n.set(0, n.reshape(n.takePosition(x, index, dim), n.getResultType(0).getShape()))))
    return failure();
  return n.isUsed(1) ? n.set(1, n.reshape(index, n.getResultType(1).getShape())) : success();
}

/// Converts argmax and argmin. Without a dim, uses the flattened tensor.
template <ps::ReductionKind kKind> LogicalResult convertExtremeIndex(NodeConverter &n) {
  Value x = n.tensor("self");
  n.markTypeOnly({"keepdim"});
  if (n.failed())
    return failure();
  if (!n.has("dim") || getRank(x) == 0)
    x = n.reshape(x, {getType(x).getNumElements()});
  int64_t dim = n.has("dim") ? wrapDim(n.integer("dim"), getRank(x)) : 0;
  return n.set(n.reshape(findExtremumIndex(n, x, dim, kKind), n.getResultType().getShape()));
}

LogicalResult convertProduct(NodeConverter &n) {
  Value x = n.tensor("self");
  n.markTypeOnly({"keepdim"});
  if (n.failed())
    return failure();
  RankedTensorType type = n.getResultType();
  x = n.convert(x, type.getElementType());
  SmallVector<int64_t> dims = n.reducedDims(x);
  if (getType(x).getNumElements() == 0)
    return n.set(n.splat(type, 1));
  for (int64_t dim : dims)
    x = buildProduct(n, x, dim);
  return n.set(n.reshape(x, type.getShape()));
}

template <ps::ReductionKind kKind> LogicalResult convertLogical(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  x = n.convert(x, n.i1());
  return n.set(n.reduce(kKind, x, n.reducedDims(x), n.boolean("keepdim", false)));
}

} // namespace

void addReductionConverters(ConverterTable &table) {
  table["aten.sum"] = convertSum;
  table["aten.mean"] = convertMean;
  table["aten.amax"] = convertExtreme<ps::ReductionKind::Max>;
  table["aten.amin"] = convertExtreme<ps::ReductionKind::Min>;
  table["aten.max.default"] = convertExtreme<ps::ReductionKind::Max>;
  table["aten.min.default"] = convertExtreme<ps::ReductionKind::Min>;
  table["aten.max.dim"] = convertExtremeAndIndex<ps::ReductionKind::Max>;
  table["aten.min.dim"] = convertExtremeAndIndex<ps::ReductionKind::Min>;
  table["aten.argmax"] = convertExtremeIndex<ps::ReductionKind::Max>;
  table["aten.argmin"] = convertExtremeIndex<ps::ReductionKind::Min>;
  table["aten.prod"] = convertProduct;
  table["aten.max.other"] = table.lookup("aten.maximum");
  table["aten.min.other"] = table.lookup("aten.minimum");
  table["aten.any"] = convertLogical<ps::ReductionKind::Max>;
  table["aten.all"] = convertLogical<ps::ReductionKind::Min>;
}

} // namespace parashard::import
