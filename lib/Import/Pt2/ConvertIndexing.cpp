// Converts embeddings, indexing by tensors, and cumulative sums.
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
  Value rows = buildRows(n, table, indices, paddingAttr, /*wraps=*/false);
  return n.failed() ? failure() : n.set(rows);
}

/// Converts indexing such as x[:, i, j, :]. First moves the indexed dims to the front, and indexes
/// them. The dims of the index tensors then replace the indexed dims in front. If the indexed dims
/// were adjacent, the dims of the index tensors move to the original position of the indexed dims,
/// as in NumPy.
LogicalResult convertIndex(NodeConverter &n) {
  Value x = n.tensor("self");
  SmallVector<Value> arguments = n.tensors("indices"), indices;
  if (n.failed())
    return failure();
  if (int64_t(arguments.size()) > getRank(x))
    return n.fail("has more indices than the tensor has dims");
  SmallVector<int64_t> indexed, rest;
  for (int64_t dim = 0; dim < getRank(x); ++dim) {
    Value index = dim < int64_t(arguments.size()) ? arguments[dim] : Value();
    (index ? indexed : rest).push_back(dim);
    if (index)
      indices.push_back(index);
    if (index && getElement(index).isInteger(1))
      return n.fail("has a bool mask as index, which is not supported");
  }
  SmallVector<int64_t> order(indexed);
  llvm::append_range(order, rest);
  Value taken = buildIndex(n, n.transpose(x, order), indices);
  if (n.failed())
    return failure();
  bool together = indexed.back() - indexed.front() + 1 == int64_t(indexed.size());
  int64_t before = together ? indexed.front() : 0, after = getRank(taken) - int64_t(rest.size());
  SmallVector<int64_t> back = llvm::to_vector(llvm::seq(after, after + before));
  llvm::append_range(back, llvm::seq<int64_t>(0, after));
  llvm::append_range(back, llvm::seq(after + before, getRank(taken)));
  return n.set(n.transpose(taken, back));
}

/// Converts x[:, positions] = values, with one index tensor of one dim. `index_copy` decomposes to
/// this form.
LogicalResult convertPositionPut(NodeConverter &n, Value x, Value values, Value index,
                                 int64_t dim) {
  SmallVector<int64_t> shape(getShape(x));
  shape[dim] = getShape(index)[0];
  Value written = buildIndexCopy(n, x, index, n.broadcast(values, shape), dim);
  return n.failed() ? failure() : n.set(written);
}

/// Converts x[mask] = number to a select. The dims of `mask` are the first dims of x.
LogicalResult convertIndexPut(NodeConverter &n) {
  Value x = n.tensor("self"), value = n.tensor("values");
  SmallVector<Value> indices = n.tensors("indices");
  if (n.failed())
    return failure();
  bool accumulates = n.boolean("accumulate", false);
  auto given = llvm::find_if(indices, [](Value index) { return bool(index); });
  int64_t dim = given - indices.begin();
  bool isOneList = llvm::count(indices, Value()) + 1 == int64_t(indices.size()) &&
                   dim < getRank(x) && getRank(*given) == 1 && !getElement(*given).isInteger(1);
  if (isOneList && !accumulates && getElement(value) == getElement(x))
    return convertPositionPut(n, x, value, *given, dim);
  bool isMask = indices.size() == 1 && indices[0] && getElement(indices[0]).isInteger(1);
  if (!isMask || getType(value).getNumElements() != 1 || accumulates)
    return n.fail(
        "is only supported as x[mask] = number, with a bool mask, or as x[:, positions] = "
        "values, with one list of positions");
  SmallVector<int64_t> shape(getShape(indices[0]));
  shape.resize(getRank(x), 1);
  Value mask = n.broadcast(n.reshape(indices[0], shape), getShape(x));
  value = n.broadcast(n.convert(n.reshape(value, {}), getElement(x)), getShape(x));
  return n.failed() ? failure() : n.set(n.make<ps::SelectOp>(mask, value, x));
}

LogicalResult convertIndexCopy(NodeConverter &n) {
  Value x = n.tensor("self"), index = n.tensor("index"), source = n.tensor("source");
  if (n.failed())
    return failure();
  std::optional<int64_t> dim = findDim(n, "dim", getRank(x));
  Value written = dim ? buildIndexCopy(n, x, index, source, *dim) : x;
  return n.failed() ? failure() : n.set(written);
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
  std::optional<int64_t> dim = findDim(n, "dim", std::max<int64_t>(1, getRank(x)));
  Type element = n.getResultType().getElementType();
  if (!dim || n.failed())
    return failure();
  Value sums = buildRunningSum(n, n.convert(x, element), *dim);
  return n.failed() ? failure() : n.set(sums);
}

/// Builds the differences of adjacent elements along a dim, `n` times. First concatenates
/// `prepend`, the operand and `append`.
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
  table["aten.index_copy"] = convertIndexCopy;
  table["aten.index_select"] = convertIndexSelect;
  table["aten.cumsum"] = convertCumsum;
  table["aten.diff"] = convertDiff;
}

} // namespace parashard::import
