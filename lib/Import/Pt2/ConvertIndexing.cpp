// Rows of tables, and indexing by tensors of indices that are constant.
#include "lib/Import/Pt2/Convert.h"
#include "lib/Import/Pt2/HostValue.h"

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

/// Index tensors, broadcast together, as host values; nothing when one is not constant.
std::optional<SmallVector<ps::Tensor>> getIndices(NodeConverter &n, ArrayRef<Value> indices,
                                                  SmallVector<int64_t> &shape) {
  for (Value index : indices) {
    SmallVector<int64_t> joined(std::max<size_t>(shape.size(), getRank(index)), 1);
    for (size_t i = 0; i < shape.size(); ++i)
      joined[joined.size() - shape.size() + i] = shape[i];
    for (int64_t i = 0; i < getRank(index); ++i)
      if (int64_t &size = joined[joined.size() - getRank(index) + i]; size == 1)
        size = getShape(index)[i];
    shape = joined;
  }
  SmallVector<ps::Tensor> tensors;
  for (Value index : indices) {
    std::optional<ps::Tensor> tensor =
        evaluateOnHost(n.broadcast(n.convert(index, n.i64()), shape));
    if (!tensor)
      return std::nullopt;
    tensors.push_back(*tensor);
  }
  return tensors;
}

int64_t wrapIndex(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

/// Every index tensor walks one dim of `shape`, each another one, in a progression: then the result
/// is a slice.
std::optional<SmallVector<int64_t>>
getWalkedDims(ArrayRef<ps::Tensor> indices, ArrayRef<int64_t> shape, ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> dims;
  for (auto [which, index] : llvm::enumerate(indices)) {
    SmallVector<int64_t> strides = index.getStrides();
    int64_t walked = -1;
    for (int64_t dim = 0; dim < int64_t(shape.size()) && walked < 0; ++dim)
      if (shape[dim] > 1 && index.getInt(strides[dim]) != index.getInt(0))
        walked = dim;
    // An index that does not move still takes a dim of size 1 of its own.
    for (int64_t dim = 0; dim < int64_t(shape.size()) && walked < 0; ++dim)
      if (shape[dim] == 1 && !llvm::is_contained(dims, dim))
        walked = dim;
    if (walked < 0 || llvm::is_contained(dims, walked))
      return std::nullopt;
    int64_t start = wrapIndex(index.getInt(0), sizes[which]);
    int64_t step =
        shape[walked] > 1 ? wrapIndex(index.getInt(strides[walked]), sizes[which]) - start : 1;
    if (step < 1)
      return std::nullopt;
    for (int64_t i = 0; i < index.size(); ++i)
      if (wrapIndex(index.getInt(i), sizes[which]) != start + step * index.delinearize(i)[walked])
        return std::nullopt;
    dims.push_back(walked);
  }
  return dims;
}

/// x[i0, i1, ..., :]: every element from a constant.
Value indexConstant(NodeConverter &n, const ps::Tensor &x, ArrayRef<ps::Tensor> indices) {
  ps::Tensor out(n.getResultType());
  int64_t inner = 1;
  for (int64_t size : x.getShape().drop_front(indices.size()))
    inner *= size;
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t at = 0;
    for (auto [dim, index] : llvm::enumerate(indices))
      at = at * x.getShape()[dim] + wrapIndex(index.getInt(i / inner), x.getShape()[dim]);
    at = at * inner + i % inner;
    out.isFloat() ? out.set(i, x.get(at)) : out.setInt(i, x.getInt(at));
  }
  return buildHostConstant(n, out);
}

/// x[i0, i1, ...] where the indices are progressions in different dims: a slice, transposed to the
/// indices' order.
Value indexBySlices(NodeConverter &n, Value x, ArrayRef<ps::Tensor> indices,
                    ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
  for (auto [dim, index] : llvm::enumerate(indices)) {
    int64_t size = getShape(x)[dim], start = wrapIndex(index.getInt(0), size),
            count = shape[dims[dim]];
    int64_t step =
        count > 1 ? wrapIndex(index.getInt(index.getStrides()[dims[dim]]), size) - start : 1;
    x = n.slice(x, dim, start, start + (count - 1) * step + 1, step);
  }
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, getRank(x)));
  std::sort(order.begin(), order.begin() + dims.size(),
            [&](int64_t a, int64_t b) { return dims[a] < dims[b]; });
  x = n.transpose(x, order);
  // The dims of `shape` that no index walks have size 1 or repeat.
  SmallVector<int64_t> single(shape.size(), 1);
  for (int64_t dim : dims)
    single[dim] = shape[dim];
  SmallVector<int64_t> full(shape);
  ArrayRef<int64_t> rest = getShape(x).drop_front(dims.size());
  single.append(rest.begin(), rest.end());
  full.append(rest.begin(), rest.end());
  return n.broadcast(n.reshape(x, single), full);
}

/// A table of rows by one tensor of indices is an embedding.
Value indexRows(NodeConverter &n, Value x, Value index) {
  if (getRank(x) != 2 || !isFloat(x) || getElement(index).isInteger(1))
    return {};
  return n.make<ps::EmbeddingOp>(n.getResultType(), x, index, IntegerAttr());
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
  SmallVector<int64_t> shape;
  std::optional<SmallVector<ps::Tensor>> constants = getIndices(n, indices, shape);
  if (n.failed())
    return failure();
  if (constants) {
    if (auto dims = getWalkedDims(*constants, shape, getShape(x)))
      return n.set(indexBySlices(n, x, *constants, shape, *dims));
    if (std::optional<ps::Tensor> table = evaluateOnHost(x))
      return n.set(indexConstant(n, *table, *constants));
  }
  if (indices.size() == 1)
    if (Value rows = indexRows(n, x, indices[0]))
      return n.set(rows);
  return n.fail(
      "indexes by tensors that are neither constant progressions nor rows of a table of floats");
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
  int64_t dim = n.wrapDim(n.integer("dim"), getRank(x));
  if (dim == 0)
    if (Value rows = indexRows(n, x, index))
      return n.set(rows);
  if (std::optional<ps::Tensor> constant = evaluateOnHost(index))
    return convertConstantSelect(n, x, *constant, dim);
  return n.fail("is only supported by a constant index, or on rows of a table of floats");
}

/// A running sum of what is known at import.
LogicalResult convertCumsum(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  int64_t dim = n.wrapDim(n.integer("dim"), getRank(x));
  std::optional<ps::Tensor> constant =
      evaluateOnHost(n.convert(x, n.getResultType().getElementType()));
  if (!constant)
    return n.fail(
        "is a running sum of a value that depends on inputs or variables, which is not supported");
  ps::Tensor out = *constant;
  int64_t stride = out.getRank() ? out.getStrides()[dim] : 1;
  for (int64_t i = 0; i < out.size(); ++i)
    if (out.getRank() && out.delinearize(i)[dim] > 0)
      out.isFloat() ? out.set(i, out.get(i) + out.get(i - stride))
                    : out.setInt(i, out.getInt(i) + out.getInt(i - stride));
  return n.set(buildHostConstant(n, out));
}

/// Differences of neighbours along a dim, of the operand with `prepend` before and `append` after
/// it.
LogicalResult convertDiff(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  int64_t dim = n.wrapDim(n.integer("dim", -1), getRank(x));
  SmallVector<Value> parts{x};
  if (Value before = n.optionalTensor("prepend"))
    parts.insert(parts.begin(), n.convert(before, getElement(x)));
  if (Value after = n.optionalTensor("append"))
    parts.push_back(n.convert(after, getElement(x)));
  x = n.concat(parts, dim);
  for (int64_t i = 0; i < n.integer("n", 1); ++i) {
    int64_t size = getShape(x)[dim];
    x = n.make<ps::SubOp>(n.slice(x, dim, 1, size), n.slice(x, dim, 0, size - 1));
  }
  return n.set(x);
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
