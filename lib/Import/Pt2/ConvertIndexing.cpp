// Rows of tables, indexing by tensors of indices, running sums.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Dims.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertEmbedding(NodeConverter &n) {
  Value table = n.tensor("weight"), indices = n.tensor("indices");
  int64_t padding = n.integer("padding_idx", -1);
  if (n.failed())
    return failure();
  if (n.boolean("scale_grad_by_freq", false) || n.boolean("sparse", false))
    return n.fail("has scale_grad_by_freq or sparse gradients, which are not supported");
  IntegerAttr paddingAttr = padding >= 0 ? n.b.getI64IntegerAttr(padding) : IntegerAttr();
  return n.set(n.make<ps::EmbeddingOp>(n.getResultType(), table, indices, paddingAttr));
}

LogicalResult convertIndex(NodeConverter &n) {
  Value x = n.tensor("self");
  SmallVector<Value> indices = n.tensors("indices");
  if (n.failed())
    return failure();
  while (!indices.empty() && !indices.back())
    indices.pop_back();
  for (Value index : indices)
    if (!index || getElement(index).isInteger(1))
      return n.fail("mixes indices with ':' or has a bool mask as index, which is not supported");
  Value taken = buildIndex(n, x, indices);
  return n.failed() ? failure() : n.set(taken);
}

/// x[mask] = value, with one value for all: a select. `mask` covers the first dims of x.
LogicalResult convertIndexPut(NodeConverter &n) {
  Value x = n.tensor("self"), value = n.tensor("values");
  SmallVector<Value> indices = n.tensors("indices");
  if (n.failed())
    return failure();
  bool isMask = indices.size() == 1 && indices[0] && getElement(indices[0]).isInteger(1);
  if (!isMask || getType(value).getNumElements() != 1 || n.boolean("accumulate", false))
    return n.fail("is only supported as x[mask] = number, with a bool mask");
  SmallVector<int64_t> shape(getShape(indices[0]));
  shape.resize(getRank(x), 1);
  Value mask = n.broadcast(n.reshape(indices[0], shape), getShape(x));
  value = n.broadcast(n.convert(n.reshape(value, {}), getElement(x)), getShape(x));
  return n.failed() ? failure() : n.set(n.make<ps::SelectOp>(mask, value, x));
}

LogicalResult convertIndexSelect(NodeConverter &n) {
  Value x = n.tensor("self"), index = n.tensor("index");
  if (n.failed())
    return failure();
  std::optional<int64_t> dim = findDim(n, "dim", getRank(x));
  Value taken = dim ? buildSelect(n, x, index, *dim) : x;
  return n.failed() ? failure() : n.set(taken);
}

LogicalResult convertCumsum(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  int64_t dim = n.wrapDim(n.integer("dim"), getRank(x));
  Value sums = buildRunningSum(n, n.convert(x, n.getResultType().getElementType()), dim);
  return n.failed() ? failure() : n.set(sums);
}

/// Differences of neighbours along a dim, of the operand with `prepend` before and `append` after
/// it.
LogicalResult convertDiff(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  std::optional<int64_t> dim = findDim(n, "dim", getRank(x), -1);
  if (!dim)
    return failure();
  SmallVector<Value> parts{x};
  if (Value before = n.optionalTensor("prepend"))
    parts.insert(parts.begin(), n.convert(before, getElement(x)));
  if (Value after = n.optionalTensor("append"))
    parts.push_back(n.convert(after, getElement(x)));
  x = n.concat(parts, *dim);
  for (int64_t i = 0; i < n.integer("n", 1) && !n.failed(); ++i) {
    int64_t size = getShape(x)[*dim];
    x = n.make<ps::SubOp>(n.slice(x, *dim, 1, size), n.slice(x, *dim, 0, size - 1));
  }
  return n.failed() ? failure() : n.set(x);
}

} // namespace

void addIndexingConverters(ConverterTable &table) {
  table["aten.embedding"] = convertEmbedding;
  table["aten.index.Tensor"] = convertIndex;
  table["aten._unsafe_index.Tensor"] = convertIndex;
  table["aten.index_put"] = convertIndexPut;
  table["aten.index_select"] = convertIndexSelect;
  table["aten.cumsum"] = convertCumsum;
  table["aten.diff"] = convertDiff;
}

} // namespace parashard::import
