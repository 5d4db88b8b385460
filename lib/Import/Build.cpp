// Implements the builder of `ps` ops that both importers share.
#include "lib/Import/Build.h"
#include "lib/Import/Shapes.h"

using namespace mlir;
using namespace llvm;

namespace parashard::import {

LogicalResult TensorBuilder::fail(const Twine &message) {
  if (reason.empty())
    reason = message.str();
  return failure();
}

Value TensorBuilder::splat(RankedTensorType type, double value) {
  return make<ps::ConstantOp>(type, value);
}

Value TensorBuilder::constant(RankedTensorType type, ArrayRef<double> elements) {
  // Constants of f32 and f64 are built without an APFloat per element, which would be slow for
  // millions of elements.
  if (type.getElementType().isF64())
    return make<ps::ConstantOp>(DenseElementsAttr::get(type, elements));
  if (type.getElementType().isF32())
    return make<ps::ConstantOp>(DenseElementsAttr::get(
        type, ArrayRef<float>(std::vector<float>(elements.begin(), elements.end()))));
  const fltSemantics &semantics = cast<FloatType>(type.getElementType()).getFloatSemantics();
  auto values = map_to_vector(elements, [&](double element) {
    APFloat value(element);
    bool isInexact;
    (void)value.convert(semantics, APFloat::rmNearestTiesToEven, &isInexact);
    return value;
  });
  return make<ps::ConstantOp>(DenseElementsAttr::get(type, ArrayRef<APFloat>(values)));
}

RankedTensorType TensorBuilder::typeLike(Value value, Type elementType) {
  return RankedTensorType::get(getShape(value), elementType);
}

Value TensorBuilder::convert(Value value, Type elementType) {
  if (getElement(value) == elementType)
    return value;
  return make<ps::ConvertOp>(typeLike(value, elementType), value);
}

/// Simplifies reshape(transpose(reshape(x))) to one reshape and one transpose. The first reshape
/// must merge leading dims of x, and the transpose must keep the merged dim in front. The last
/// reshape, to `shape`, must split the merged dim again. Returns null for other values. Example:
/// [2, 3, 4, 5] reshaped to [6, 4, 5], transposed to [6, 5, 4] and reshaped to [2, 3, 5, 4] becomes
/// a single transpose.
static Value unmergeBeforeTranspose(TensorBuilder &n, Value value, ArrayRef<int64_t> shape) {
  auto transpose = value.getDefiningOp<ps::TransposeOp>();
  auto merge = transpose ? transpose.getOperand().getDefiningOp<ps::ReshapeOp>() : ps::ReshapeOp();
  if (!merge || transpose.getPermutation()[0] != 0)
    return {};
  ArrayRef<int64_t> merged = getShape(merge.getResult()), rest = getShape(value).drop_front();
  int64_t leading = int64_t(shape.size()) - int64_t(rest.size());
  if (leading < 2 || shape.drop_front(leading) != rest ||
      llvm::product_of(shape.take_front(leading)) != merged[0])
    return {};
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, leading));
  for (int64_t dim : transpose.getPermutation().drop_front())
    permutation.push_back(dim + leading - 1);
  SmallVector<int64_t> apart(shape.take_front(leading));
  llvm::append_range(apart, merged.drop_front());
  return n.transpose(n.reshape(merge.getOperand(), apart), permutation);
}

Value TensorBuilder::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!isPossibleShape(shape)) {
    (void)fail("reshapes " + debugString(value.getType()) + " to a shape with " + kImpossibleShape);
    return value;
  }
  if (llvm::product_of(shape) != getType(value).getNumElements()) {
    (void)fail("reshapes " + debugString(value.getType()) +
               " to a shape with another number of elements");
    return splat(RankedTensorType::get(shape, getElement(value)), 0);
  }
  if (auto earlier = value.getDefiningOp<ps::ReshapeOp>())
    value = earlier.getOperand();
  if (getShape(value) == shape)
    return value;
  if (Value unmerged = unmergeBeforeTranspose(*this, value, shape))
    return unmerged;
  return make<ps::ReshapeOp>(RankedTensorType::get(shape, getElement(value)), value);
}

Value TensorBuilder::transpose(Value value, ArrayRef<int64_t> permutation) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, getRank(value)));
  if (!std::is_permutation(order.begin(), order.end(), permutation.begin(), permutation.end())) {
    (void)fail("transposes " + debugString(value.getType()) +
               " by a list that is not a permutation of its dims");
    return value;
  }
  if (llvm::is_sorted(permutation))
    return value;
  return make<ps::TransposeOp>(value, permutation);
}

Value TensorBuilder::swapDims(Value value, int64_t dim0, int64_t dim1) {
  int64_t rank = getRank(value);
  if (rank == 0)
    return value;
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  dim0 = wrapDim(dim0, rank), dim1 = wrapDim(dim1, rank);
  if (std::min(dim0, dim1) < 0 || std::max(dim0, dim1) >= rank) {
    (void)fail("swaps dims that " + debugString(value.getType()) + " does not have");
    return value;
  }
  std::swap(permutation[dim0], permutation[dim1]);
  return transpose(value, permutation);
}

Value TensorBuilder::slice(Value value, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  ArrayRef<int64_t> shape = getShape(value);
  if (dim < 0 || dim >= getRank(value) || start < 0 || start > limit || limit > shape[dim] ||
      stride < 1) {
    (void)fail("slices elements " + Twine(start) + " to " + Twine(limit) + " with stride " +
               Twine(stride) + " along dim " + Twine(dim) + " of " + debugString(value.getType()) +
               ", which is not a valid slice");
    return value;
  }
  if (start == 0 && limit == shape[dim] && stride == 1)
    return value;
  SmallVector<int64_t> starts(shape.size(), 0), limits(shape), strides(shape.size(), 1),
      result(shape);
  starts[dim] = start, limits[dim] = limit, strides[dim] = stride;
  result[dim] = llvm::divideCeil(limit - start, stride);
  return make<ps::SliceOp>(RankedTensorType::get(result, getElement(value)), value, starts, limits,
                           strides);
}

Value TensorBuilder::concat(ValueRange values, int64_t dim) {
  if (values.size() == 1)
    return values[0];
  SmallVector<int64_t> shape(getShape(values[0]));
  bool hasDim = dim >= 0 && dim < int64_t(shape.size());
  int64_t size = 0;
  for (Value value : values) {
    SmallVector<int64_t> other(getShape(value));
    if (hasDim && other.size() == shape.size()) {
      size += other[dim];
      other[dim] = shape[dim];
    }
    if (!hasDim || other != shape) {
      (void)fail("concatenates " + debugString(values[0].getType()) + " and " +
                 debugString(value.getType()) + " along dim " + Twine(dim) +
                 "; expected equal sizes of all other dims");
      return values[0];
    }
  }
  shape[dim] = size;
  return make<ps::ConcatOp>(RankedTensorType::get(shape, getElement(values[0])), values, dim);
}

Value TensorBuilder::broadcast(Value value, ArrayRef<int64_t> shape) {
  ArrayRef<int64_t> from = getShape(value);
  if (from == shape)
    return value;
  if (!isPossibleShape(shape)) {
    (void)fail("broadcasts to a shape with " + kImpossibleShape);
    return value;
  }
  if (from.size() > shape.size()) {
    (void)fail("broadcasts " + debugString(value.getType()) + " to fewer dims");
    return value;
  }
  // A splat constant is created in the new shape, without an op.
  if (auto constant = value.getDefiningOp<ps::ConstantOp>())
    if (auto dense = dyn_cast<SplatElementsAttr>(constant.getValue()))
      return make<ps::ConstantOp>(
          dense.resizeSplat(RankedTensorType::get(shape, getElement(value))));
  SmallVector<int64_t> kept, dims;
  int64_t offset = shape.size() - from.size();
  for (auto [i, size] : enumerate(from)) {
    if (size != shape[i + offset] && size != 1)
      (void)fail("broadcasts a dim of size " + Twine(size) + " to " + Twine(shape[i + offset]) +
                 "; expected size 1 or equal sizes");
    if (size == shape[i + offset]) {
      kept.push_back(size);
      dims.push_back(i + offset);
    }
  }
  if (failed())
    return value;
  value = reshape(value, kept);
  return make<ps::BroadcastOp>(RankedTensorType::get(shape, getElement(value)), value, dims);
}

Value TensorBuilder::reduce(ps::ReductionKind kind, Value value, ArrayRef<int64_t> dims,
                            bool keepDims) {
  SmallVector<int64_t> sorted(dims);
  llvm::sort(sorted);
  if (!sorted.empty() && (sorted.front() < 0 || sorted.back() >= getRank(value) ||
                          std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())) {
    (void)fail("reduces dims that " + debugString(value.getType()) +
               " does not have, or one dim twice");
    return value;
  }
  Value result = value;
  if (!sorted.empty())
    result = make<ps::ReduceOp>(kind, value, sorted);
  if (!keepDims)
    return result;
  SmallVector<int64_t> shape(getShape(value));
  for (int64_t dim : sorted)
    shape[dim] = 1;
  return reshape(result, shape);
}

Value TensorBuilder::compare(ps::Predicate predicate, Value lhs, Value rhs) {
  return make<ps::CompareOp>(typeLike(lhs, i1()), predicate, lhs, rhs);
}

Value TensorBuilder::widen(Value value) {
  Type element = getElement(value);
  return element.isF16() || element.isBF16() ? convert(value, f32()) : value;
}

Value TensorBuilder::divide(Value value, double divisor) {
  return make<ps::DivOp>(value, splat(getType(value), divisor));
}

/// Replaces a transposed value by the operand of its transposes. Returns the labels of the
/// operand's dims.
static SmallVector<int64_t> absorbTransposes(Value &value, ArrayRef<int64_t> given) {
  SmallVector<int64_t> labels(given);
  while (auto transpose = value.getDefiningOp<ps::TransposeOp>()) {
    SmallVector<int64_t> permuted(labels.size());
    for (auto [i, from] : enumerate(transpose.getPermutation()))
      permuted[from] = labels[i];
    value = transpose.getOperand();
    labels = permuted;
  }
  return labels;
}

Value TensorBuilder::contract(Value lhs, ArrayRef<int64_t> lhsLabels, Value rhs,
                              ArrayRef<int64_t> rhsLabels, ArrayRef<int64_t> resultLabels) {
  SmallVector<int64_t> left = absorbTransposes(lhs, lhsLabels);
  SmallVector<int64_t> right = absorbTransposes(rhs, rhsLabels);
  return make<ps::ContractOp>(lhs, left, rhs, right, resultLabels).getResult();
}

Value TensorBuilder::takePosition(Value value, Value position, int64_t dim) {
  RankedTensorType indexType = typeLike(value, i64());
  Value chosen = compare(ps::Predicate::Eq, make<ps::IotaOp>(indexType, dim),
                         broadcast(convert(position, i64()), getShape(value)));
  Value kept = make<ps::SelectOp>(chosen, value, splat(getType(value), 0));
  return reduce(ps::ReductionKind::Sum, kept, {dim}, true);
}

int64_t countElements(Value value, ArrayRef<int64_t> dims) {
  int64_t count = 1;
  for (auto [dim, size] : llvm::enumerate(getShape(value)))
    // Counts each dim once, even if `dims` contains it twice.
    if (llvm::is_contained(dims, int64_t(dim)))
      count *= size;
  return count;
}

SmallVector<int64_t> TensorBuilder::commonShape(Value lhs, Value rhs) {
  ArrayRef<int64_t> longer = getShape(lhs), shorter = getShape(rhs);
  if (longer.size() < shorter.size())
    std::swap(longer, shorter);
  SmallVector<int64_t> shape(longer);
  for (auto [size, other] : llvm::zip(MutableArrayRef(shape).take_back(shorter.size()), shorter))
    if (size == 1)
      size = other;
  return shape;
}

SmallVector<int64_t> wrapDims(ArrayRef<int64_t> dims, int64_t rank) {
  return llvm::map_to_vector(dims, [&](int64_t dim) { return wrapDim(dim, rank); });
}

} // namespace parashard::import
