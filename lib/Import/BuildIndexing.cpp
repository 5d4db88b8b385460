// Builds indexing by constant tensors, lookups of table rows, and cumulative sums.
#include "lib/Import/BuildOps.h"
#include "lib/Import/FirstRow.h"
#include "lib/Import/HostValue.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Broadcasts the index tensors to a common shape. Returns their values, and sets `shape` to the
/// common shape. Returns nullopt if an index is not constant.
std::optional<SmallVector<ps::Tensor>> getIndices(TensorBuilder &n, ArrayRef<Value> indices,
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

/// Returns, for each index tensor, the dim of `shape` along which its values are an arithmetic
/// progression. Indexing by such tensors is a slice. Returns nullopt if an index is not such a
/// progression, or if two indices have the same dim. Example: for shape [2, 3], the indices [[0],
/// [2]] and [[1, 2, 3]] have dims 0 and 1.
std::optional<SmallVector<int64_t>>
getWalkedDims(ArrayRef<ps::Tensor> indices, ArrayRef<int64_t> shape, ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> dims;
  for (auto [which, index] : llvm::enumerate(indices)) {
    if (index.size() == 0)
      return std::nullopt;
    SmallVector<int64_t> strides = index.getStrides();
    int64_t walked = -1;
    for (int64_t dim = 0; dim < int64_t(shape.size()) && walked < 0; ++dim)
      if (shape[dim] > 1 && index.getInt(strides[dim]) != index.getInt(0))
        walked = dim;
    // An index with a single value gets a dim of size 1 that no other index has.
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

/// Evaluates x[i0, i1, ..., :] on a constant.
Value indexConstant(TensorBuilder &n, const ps::Tensor &x, ArrayRef<ps::Tensor> indices) {
  SmallVector<int64_t> shape(indices[0].getShape());
  llvm::append_range(shape, x.getShape().drop_front(indices.size()));
  ps::Tensor out(x.getType().clone(shape));
  int64_t inner = llvm::product_of(x.getShape().drop_front(indices.size()));
  for (int64_t i = 0; i < out.size(); ++i) {
    int64_t at = 0;
    for (auto [dim, index] : llvm::enumerate(indices))
      at = at * x.getShape()[dim] + wrapIndex(index.getInt(i / inner), x.getShape()[dim]);
    at = at * inner + i % inner;
    out.isFloat() ? out.set(i, x.get(at)) : out.setInt(i, x.getInt(at));
  }
  return buildHostConstant(n, out);
}

/// Builds x[i0, i1, ...] if index d is a progression along dim `dims[d]` of `shape`. Slices x, and
/// transposes the slice to the order of `shape`.
Value indexBySlices(TensorBuilder &n, Value x, ArrayRef<ps::Tensor> indices,
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
  // Dims of `shape` that are not in `dims` have size 1, or repeat the same elements.
  SmallVector<int64_t> single(shape.size(), 1);
  for (int64_t dim : dims)
    single[dim] = shape[dim];
  SmallVector<int64_t> full(shape);
  ArrayRef<int64_t> rest = getShape(x).drop_front(dims.size());
  single.append(rest.begin(), rest.end());
  full.append(rest.begin(), rest.end());
  return n.broadcast(n.reshape(x, single), full);
}

/// Builds an embedding if x is a float tensor [rows, width], and `index` contains integers.
/// Otherwise returns null.
Value indexRows(TensorBuilder &n, Value x, Value index) {
  if (getRank(x) != 2 || !isFloat(x) || getElement(index).isInteger(1))
    return {};
  return buildRows(n, x, index, IntegerAttr(), /*wraps=*/true);
}

/// Returns true if `index` only contains elements of model inputs. Programs check the range of
/// inputs when they read data.
bool areInputs(Value index) {
  Operation *op = index.getDefiningOp();
  if (!op)
    return true;
  return isa<ps::ReshapeOp, ps::TransposeOp, ps::BroadcastOp, ps::SliceOp, ps::ConcatOp,
             ps::ConvertOp>(op) &&
         llvm::all_of(op->getOperands(),
                      [](Value operand) { return !isFloat(operand) && areInputs(operand); });
}

/// Returns true if all indices are in [-size, size).
bool isInside(const ps::Tensor &index, int64_t size) {
  for (int64_t i = 0; i < index.size(); ++i)
    if (index.getInt(i) < -size || index.getInt(i) >= size)
      return false;
  return true;
}

/// Fails if an index is out of range. indices[d] indexes dim d of x.
bool areInside(TensorBuilder &n, Value x, ArrayRef<ps::Tensor> indices) {
  for (auto [index, size] : llvm::zip(indices, getShape(x)))
    if (!isInside(index, size)) {
      (void)n.fail("has an index that is out of range for " + debugString(x.getType()));
      return false;
    }
  return true;
}

/// Makes negative constant indices positive (with `wraps`). Fails if an index is out of range for a
/// dim of `size` elements. Example: -1 becomes 4 for 5 elements.
Value wrapConstant(TensorBuilder &n, Value index, ps::Tensor values, int64_t size, bool wraps) {
  bool changes = false;
  for (int64_t i = 0; i < values.size(); ++i) {
    int64_t value = values.getInt(i);
    if (value >= size || value < (wraps ? -size : 0)) {
      (void)n.fail("reads element " + Twine(value) + " of a dim of size " + Twine(size));
      return index;
    }
    changes |= value < 0;
    values.setInt(i, wrapIndex(value, size));
  }
  return changes ? buildHostConstant(n, values) : index;
}

/// Sets `ps.limit` on the inputs from which `index` is taken: their values must be in [0, size).
void limitInputs(Value index, int64_t size) {
  if (auto argument = dyn_cast<BlockArgument>(index)) {
    auto function = cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    unsigned number = argument.getArgNumber();
    if (auto known = function.getArgAttrOfType<IntegerAttr>(number, kLimitMark))
      size = std::min(size, known.getInt());
    function.setArgAttr(number, kLimitMark, Builder(index.getContext()).getI64IntegerAttr(size));
    return;
  }
  for (Value operand : index.getDefiningOp()->getOperands())
    limitInputs(operand, size);
}

/// An index tensor. If the model computes the indices, `isInside` has one bool per index: true if
/// the index is in range. For constants and model inputs, `isInside` is null. The importer checks
/// constants, and the program checks inputs when it reads its data.
struct CheckedIndex {
  Value index, isInside;
};

/// Checks indices into a dim of `size` elements. With `wraps`, negative indices count from the end.
CheckedIndex checkIndex(TensorBuilder &n, Value index, int64_t size, bool wraps) {
  if (std::optional<ps::Tensor> known = evaluateOnHost(index))
    return {wrapConstant(n, index, *known, size, wraps), {}};
  if (areInputs(index)) {
    limitInputs(index, size);
    return {index, {}};
  }
  Value zero = n.splat(getType(index), 0), end = n.splat(getType(index), double(size));
  if (wraps)
    index = n.make<ps::SelectOp>(n.compare(ps::Predicate::Lt, index, zero),
                                 n.make<ps::AddOp>(index, end), index);
  return {index, n.make<ps::AndOp>(n.compare(ps::Predicate::Le, zero, index),
                                   n.compare(ps::Predicate::Lt, index, end))};
}

/// Replaces elements of `x` that were read out of range by NaN. A run ends with an error if its
/// loss is NaN. `isInside` has the shape of `x`, or is null.
Value replaceOutside(TensorBuilder &n, Value x, Value isInside) {
  if (!isInside || !isFloat(x))
    return x;
  return n.make<ps::SelectOp>(isInside, x,
                              n.splat(getType(x), std::numeric_limits<double>::quiet_NaN()));
}

} // namespace

Value buildRows(TensorBuilder &n, Value table, Value index, IntegerAttr padding, bool wraps) {
  SmallVector<int64_t> shape(getShape(index)), spread(shape);
  shape.push_back(getShape(table)[1]);
  spread.push_back(1);
  CheckedIndex checked = checkIndex(n, index, getShape(table)[0], wraps);
  Value rows = n.make<ps::EmbeddingOp>(getType(table).clone(shape), table, checked.index, padding);
  if (!checked.isInside)
    return rows;
  return replaceOutside(n, rows, n.broadcast(n.reshape(checked.isInside, spread), shape));
}

Value buildGather(TensorBuilder &n, Value x, Value index, int64_t dim, bool wraps) {
  if (dim < 0 || dim >= getRank(x) || getRank(index) != getRank(x)) {
    (void)n.fail("gathers " + debugString(index.getType()) + " from " + debugString(x.getType()) +
                 " along dim " + Twine(dim) +
                 "; expected indices with the same number of dims, and a dim in range");
    return x;
  }
  if (auto softmax = x.getDefiningOp<ps::LogSoftmaxOp>();
      softmax && dim == getRank(x) - 1 && getShape(index).back() == 1) {
    if (std::optional<ps::Tensor> known = evaluateOnHost(index))
      index = wrapConstant(n, index, *known, getShape(x)[dim], wraps);
    return buildLabelGather(n, softmax, index); // the cross-entropy checks its labels
  }
  SmallVector<int64_t> shape(getShape(x));
  shape[dim] = 1;
  if (ArrayRef(shape) != getShape(index)) {
    (void)n.fail(
        "gathers " + debugString(index.getType()) + " from " + debugString(x.getType()) +
        " along dim " + Twine(dim) +
        ", which is not supported; expected indices of size 1 along this dim, and with equal sizes "
        "of the other dims");
    return x;
  }
  CheckedIndex checked = checkIndex(n, index, getShape(x)[dim], wraps);
  return replaceOutside(n, n.takePosition(x, checked.index, dim), checked.isInside);
}

Value buildIndex(TensorBuilder &n, Value x, ArrayRef<Value> indices) {
  SmallVector<int64_t> shape;
  if (indices.empty() || int64_t(indices.size()) > getRank(x)) {
    (void)n.fail("has " + Twine(indices.size()) + " indices for " + debugString(x.getType()));
    return x;
  }
  std::optional<SmallVector<ps::Tensor>> constants = getIndices(n, indices, shape);
  if (n.failed())
    return x;
  if (constants) {
    if (!areInside(n, x, *constants))
      return x;
    if (auto dims = getWalkedDims(*constants, shape, getShape(x)))
      return indexBySlices(n, x, *constants, shape, *dims);
    if (std::optional<ps::Tensor> table = evaluateOnHost(x))
      return indexConstant(n, *table, *constants);
  }
  if (indices.size() == 1)
    if (Value rows = indexRows(n, x, indices[0]))
      return rows;
  (void)n.fail("has index tensors that are not supported; expected constants in arithmetic "
               "progression, or one index tensor for dim 0 of a float tensor with 2 dims");
  return x;
}

/// Returns the same dims as `getWalkedDims`. Also returns nullopt if an element would be written
/// twice, or if an index is out of range (the node then fails).
static std::optional<SmallVector<int64_t>>
getWalkedOnce(TensorBuilder &n, Value x, ArrayRef<ps::Tensor> indices, ArrayRef<int64_t> shape) {
  std::optional<SmallVector<int64_t>> dims;
  if (areInside(n, x, indices))
    dims = getWalkedDims(indices, shape, getShape(x));
  for (int64_t dim = 0; dims && dim < int64_t(shape.size()); ++dim)
    if (shape[dim] != 1 && !llvm::is_contained(*dims, dim))
      dims.reset();
  return dims;
}

/// Reshapes and transposes `updates` to the dims of x. `dims[d]` is the dim of the index tensors
/// along which the index into dim d of x changes.
static Value orderUpdates(TensorBuilder &n, Value updates, ArrayRef<int64_t> dims, Value x) {
  SmallVector<int64_t> walked(dims), order, shape;
  llvm::sort(walked);
  for (int64_t dim : walked)
    shape.push_back(getShape(updates)[dim]);
  for (int64_t dim : dims)
    order.push_back(llvm::find(walked, dim) - walked.begin());
  for (int64_t dim = dims.size(); dim < getRank(x); ++dim) {
    order.push_back(dim);
    shape.push_back(getShape(x)[dim]);
  }
  return n.transpose(n.reshape(updates, shape), order);
}

Value buildIndexWrite(TensorBuilder &n, Value x, ArrayRef<Value> indices, Value updates) {
  SmallVector<int64_t> shape;
  std::optional<SmallVector<ps::Tensor>> constants = getIndices(n, indices, shape);
  SmallVector<int64_t> expected(shape), starts(getRank(x), 0), strides(getRank(x), 1);
  llvm::append_range(expected, getShape(x).drop_front(indices.size()));
  if (!n.failed() &&
      (getShape(updates) != ArrayRef(expected) || getElement(updates) != getElement(x)))
    (void)n.fail(
        "writes " + debugString(updates.getType()) + " into " + debugString(x.getType()) +
        " at indices of the shape [" +
        llvm::join(llvm::map_range(shape, [](int64_t size) { return std::to_string(size); }),
                   ", ") +
        "]; the updates must have the element type of the tensor, and its shape at these indices");
  if (n.failed() || getType(updates).getNumElements() == 0)
    return x;
  std::optional<SmallVector<int64_t>> dims;
  if (constants)
    dims = getWalkedOnce(n, x, *constants, shape);
  if (!dims) {
    (void)n.fail("writes at indices that are not constants in arithmetic progression, or writes an "
                 "element twice, which is not supported");
    return x;
  }
  for (auto [dim, index] : llvm::enumerate(*constants)) {
    int64_t size = getShape(x)[dim], walked = (*dims)[dim];
    starts[dim] = wrapIndex(index.getInt(0), size);
    if (shape[walked] > 1)
      strides[dim] = wrapIndex(index.getInt(index.getStrides()[walked]), size) - starts[dim];
  }
  return writePart(n, x, orderUpdates(n, updates, *dims, x), starts, strides);
}

Value buildIndexCopy(TensorBuilder &n, Value x, Value index, Value updates, int64_t dim) {
  SmallVector<int64_t> expected(getShape(x));
  if (dim >= 0 && dim < getRank(x) && getRank(index) == 1)
    expected[dim] = getShape(index)[0];
  if (getRank(index) != 1 || getShape(updates) != ArrayRef(expected) ||
      getElement(updates) != getElement(x)) {
    (void)n.fail("copies " + debugString(updates.getType()) + " into " + debugString(x.getType()) +
                 " at " + debugString(index.getType()) + " of dim " + Twine(dim) +
                 "; expected an index tensor with one dim, and matching updates");
    return x;
  }
  if (evaluateOnHost(index)) {
    SmallVector<int64_t> order{dim}, back = llvm::to_vector(llvm::seq<int64_t>(1, dim + 1));
    for (int64_t other = 0; other < getRank(x); ++other)
      if (other != dim)
        order.push_back(other);
    back.push_back(0);
    llvm::append_range(back, llvm::seq<int64_t>(dim + 1, getRank(x)));
    Value written = buildIndexWrite(n, n.transpose(x, order), index, n.transpose(updates, order));
    return n.transpose(written, back);
  }
  if (getShape(index)[0] != 1) {
    (void)n.fail("copies " + describeCount(getShape(index)[0], "element") +
                 " to positions that are only known at run time; expected one position, "
                 "or constant positions");
    return x;
  }
  CheckedIndex checked = checkIndex(n, index, getShape(x)[dim], /*wraps=*/false);
  SmallVector<int64_t> one(getRank(x), 1);
  auto spread = [&](Value value) { return n.broadcast(n.reshape(value, one), getShape(x)); };
  Value positions = n.make<ps::IotaOp>(getType(x).clone(n.i64()), dim);
  Value isHere = n.compare(ps::Predicate::Eq, positions, spread(n.convert(checked.index, n.i64())));
  Value written = n.make<ps::SelectOp>(isHere, n.broadcast(updates, getShape(x)), x);
  return replaceOutside(n, written, checked.isInside ? spread(checked.isInside) : Value());
}

Value buildSelect(TensorBuilder &n, Value x, Value index, int64_t dim) {
  if (dim < 0 || dim >= getRank(x)) {
    (void)n.fail("has no dim " + Twine(dim) + " in " + debugString(x.getType()));
    return x;
  }
  if (dim == 0)
    if (Value rows = indexRows(n, x, index))
      return rows;
  std::optional<ps::Tensor> constant = evaluateOnHost(index);
  if (!constant) {
    (void)n.fail(
        "is only supported with a constant index, or along dim 0 of a float tensor with 2 dims");
    return x;
  }
  if (!isInside(*constant, getShape(x)[dim])) {
    (void)n.fail("has an index that is out of range for " + debugString(x.getType()));
    return x;
  }
  SmallVector<int64_t> positions;
  for (int64_t i = 0; i < constant->size(); ++i)
    positions.push_back(wrapIndex(constant->getInt(i), getShape(x)[dim]));
  return takeInOrder(n, x, positions, dim);
}

/// Shifts x by `distance` elements toward the end of `dim`, or toward its start (`toStart`). Fills
/// with zeros.
static Value moveAlong(TensorBuilder &n, Value x, int64_t dim, int64_t distance, bool toStart) {
  if (distance >= getShape(x)[dim])
    return n.splat(getType(x), 0);
  SmallVector<int64_t> before(getRank(x), 0), after(getRank(x), 0);
  before[dim] = toStart ? -distance : distance;
  after[dim] = -before[dim];
  return buildPad(n, x, before, after, 0);
}

/// Computes a prefix sum (of x along `dim`) with doubling distances (Hillis and Steele, "Data
/// parallel algorithms", 1986). After the step with distance k, each element is the sum of the 2k
/// elements that end there. Example: [1, 2, 3, 4] becomes [1, 3, 5, 7] with k = 1, then [1, 3, 6,
/// 10] with k = 2.
///
/// Integer sums have the same bits as in PyTorch, even after overflow, since addition modulo
/// 2^width is associative. Floats are rounded log2(length) times. No element is multiplied by zero,
/// so an inf or NaN only affects sums that contain it.
Value buildRunningSum(TensorBuilder &n, Value x, int64_t dim, const RunningSum &kind) {
  if (!getRank(x))
    return x;
  if (dim < 0 || dim >= getRank(x)) {
    (void)n.fail("has no dim " + Twine(dim) + " in " + debugString(x.getType()));
    return x;
  }
  if (getElement(x).isInteger(1)) {
    (void)n.fail("is a cumulative sum of bools, which is not supported; convert them to integers");
    return x;
  }
  // If all rows are equal, as for position ids without a mask, only one row is summed.
  if (dim > 0 && getShape(x)[0] > 1)
    if (Value row = buildFirstRow(n, x))
      return repeatRow(n, buildRunningSum(n, row, dim, kind), getShape(x));
  Value sums = n.widen(x);
  if (kind.exclusive)
    sums = moveAlong(n, sums, dim, 1, kind.reverse);
  for (int64_t distance = 1; distance < getShape(x)[dim]; distance *= 2)
    sums = n.make<ps::AddOp>(sums, moveAlong(n, sums, dim, distance, kind.reverse));
  sums = n.convert(sums, getElement(x));
  // Replaces sums of constants by a constant, because later ops may need constant indices.
  std::optional<ps::Tensor> known = evaluateOnHost(sums);
  return known ? buildHostConstant(n, *known) : sums;
}

} // namespace parashard::import
