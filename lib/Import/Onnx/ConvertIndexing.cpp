// Converts gathers, scatters and cumulative sums.
#include "lib/Import/BuildOps.h"
#include "lib/Import/HostValue.h"
#include "lib/Import/Onnx/Convert.h"
#include "lib/Import/Onnx/Metadata.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Takes x[indices] along dim 0. Reshapes x to a matrix [size of dim 0, other elements], and looks
/// up rows of the matrix.
Value takeRows(OnnxNode &n, Value x, Value indices) {
  SmallVector<int64_t> shape(getShape(indices));
  llvm::append_range(shape, getShape(x).drop_front());
  int64_t width = llvm::product_of(getShape(x).drop_front());
  Value rows = n.reshape(x, {getShape(x)[0], width});
  IntegerAttr padding;
  if (std::optional<int64_t> index = getPaddingIndex(n.node); index && *index < getShape(x)[0])
    padding = n.b.getI64IntegerAttr(*index);
  return n.reshape(buildRows(n, rows, indices, padding, /*wraps=*/true), shape);
}

/// Takes the elements of x at `indices` along `axis`. The dims of `indices` replace this dim.
LogicalResult convertGather(OnnxNode &n) {
  Value x = n.input(0), indices = n.input(1);
  if (n.failed())
    return failure();
  int64_t axis = n.axis(0, getRank(x));
  if (n.failed())
    return failure();
  std::optional<ps::Tensor> known = evaluateOnHost(indices);
  if (axis == 0 && isFloat(x) && getRank(x) > 1 && getRank(indices) > 0)
    return n.set(takeRows(n, x, indices));
  if (!known)
    return n.fail(
        "gathers along dim " + Twine(axis) +
        " at indices that are not constant, which is only supported along dim 0 of floats "
        "with at least 2 dims");
  SmallVector<int64_t> positions, shape(getShape(x));
  for (int64_t i = 0; i < known->size(); ++i) {
    positions.push_back(wrapDim(known->getInt(i), shape[axis]));
    if (positions.back() < 0 || positions.back() >= shape[axis])
      return n.fail("gathers index " + Twine(known->getInt(i)) +
                    ", which is out of range for a dim of size " + Twine(shape[axis]));
  }
  Value taken = takeInOrder(n, x, positions, axis);
  shape.erase(shape.begin() + axis);
  ArrayRef<int64_t> inner = getShape(indices);
  shape.insert(shape.begin() + axis, inner.begin(), inner.end());
  return n.failed() ? failure() : n.set(n.reshape(taken, shape));
}

LogicalResult convertGatherElements(OnnxNode &n) {
  Value x = n.input(0), index = n.input(1);
  if (n.failed())
    return failure();
  int64_t dim = n.axis(0, getRank(x));
  if (n.failed() || getRank(index) != getRank(x))
    return n.fail("has indices and a tensor with different numbers of dims");
  Value picked = buildGather(n, x, index, dim, /*wraps=*/true);
  return n.failed() ? failure() : n.set(picked);
}

/// Splits indices [..., k] along the last dim into k tensors i0, i1, ... Returns an empty list if
/// the node fails.
SmallVector<Value> splitIndices(OnnxNode &n, Value indices, Value x) {
  SmallVector<Value> parts;
  int64_t last = getRank(indices) - 1, count = last < 0 ? 0 : getShape(indices)[last];
  if (isFloat(indices) || count < 1 || count > getRank(x)) {
    (void)n.fail("has " + debugString(indices.getType()) + " as indices of " +
                 debugString(x.getType()) +
                 "; expected integers [..., k] with k from 1 to "
                 "the number of dims");
    return parts;
  }
  for (int64_t i = 0; i < count; ++i)
    parts.push_back(n.reshape(n.slice(indices, last, i, i + 1), getShape(indices).drop_back()));
  return parts;
}

/// Builds x[i0, i1, ...].
LogicalResult convertGatherND(OnnxNode &n) {
  Value x = n.input(0), indices = n.input(1);
  if (n.failed())
    return failure();
  if (n.integer("batch_dims", 0))
    return n.fail("has batch_dims, which is not supported");
  SmallVector<Value> parts = splitIndices(n, indices, x);
  Value taken = n.failed() ? x : buildIndex(n, x, parts);
  return n.failed() ? failure() : n.set(taken);
}

/// Fails if updates are combined with the elements of x (add, mul, max or min), instead of
/// replacing them.
void refuseReduction(OnnxNode &n) {
  if (std::string reduction = n.string("reduction", "none"); reduction != "none")
    (void)n.fail("has the reduction '" + reduction + "', which is not supported");
}

/// Writes updates into x at [i0, i1, ...].
LogicalResult convertScatterND(OnnxNode &n) {
  Value x = n.input(0), indices = n.input(1), updates = n.input(2);
  if (!n.failed())
    refuseReduction(n);
  if (n.failed())
    return failure();
  SmallVector<Value> parts = splitIndices(n, indices, x);
  Value written = n.failed() ? x : buildIndexWrite(n, x, parts, updates);
  return n.failed() ? failure() : n.set(written);
}

/// Writes updates into x. Along dim `axis`, `index` contains the position of each update. Along
/// other dims, an update keeps its position. Example for axis 0: updates[i, j] is written to
/// x[index[i, j], j].
LogicalResult convertScatterElements(OnnxNode &n) {
  Value x = n.input(0), index = n.input(1), updates = n.input(2);
  if (!n.failed())
    refuseReduction(n);
  int64_t axis = n.failed() ? 0 : n.axis(0, getRank(x));
  if (n.failed())
    return failure();
  if (getRank(index) != getRank(x) || isFloat(index))
    return n.fail("has " + debugString(index.getType()) + " as indices of " +
                  debugString(x.getType()) + "; expected integers with the same number of dims");
  SmallVector<Value> parts;
  for (int64_t dim = 0; dim < getRank(x); ++dim)
    parts.push_back(dim == axis ? index : n.make<ps::IotaOp>(getType(index).clone(n.i64()), dim));
  Value written = buildIndexWrite(n, x, parts, updates);
  return n.failed() ? failure() : n.set(written);
}

LogicalResult convertCumSum(OnnxNode &n) {
  Value x = n.input(0);
  SmallVector<int64_t> axis = n.integersInput(1);
  if (n.failed() || axis.size() != 1)
    return n.fail("needs an axis with exactly one element");
  int64_t dim = wrapDim(axis[0], getRank(x));
  if (dim < 0 || dim >= getRank(x))
    return n.fail("has the axis " + Twine(axis[0]) + ", which is out of range");
  Value sums =
      buildRunningSum(n, x, dim, {n.integer("reverse", 0) != 0, n.integer("exclusive", 0) != 0});
  return n.failed() ? failure() : n.set(sums);
}

} // namespace

void addOnnxIndexingConverters(OnnxConverterTable &table) {
  table["Gather"] = convertGather;
  table["GatherElements"] = convertGatherElements;
  table["GatherND"] = convertGatherND;
  table["ScatterElements"] = convertScatterElements;
  table["ScatterND"] = convertScatterND;
  table["CumSum"] = convertCumSum;
}

} // namespace parashard::import
