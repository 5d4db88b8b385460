// Builds scaled dot product attention from operands with any number of heads and dims.
#include "lib/Import/BuildOps.h"
#include "lib/Import/HostValue.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace parashard::import {
namespace {

/// Reshapes [.., T, D] to [B, H, T, D]. Adds missing dims with size 1, and merges further leading
/// dims into B.
Value toRankFour(TensorBuilder &n, Value x) {
  SmallVector<int64_t> shape(getShape(x));
  while (shape.size() < 4)
    shape.insert(shape.begin(), 1);
  while (shape.size() > 4) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
  return n.reshape(x, shape);
}

/// Pads the features of each head with zeros to `size`. The zeros do not change dot products.
Value padFeatures(TensorBuilder &n, Value x, int64_t size) {
  SmallVector<int64_t> low(4, 0), high(4, 0), strides(4, 1), shape(getShape(x));
  high[3] = size - shape[3];
  shape[3] = size;
  if (!high[3])
    return x;
  return n.make<ps::PadOp>(RankedTensorType::get(shape, getElement(x)), x, low, high, strides);
}

/// Reshapes and broadcasts a mask to [B or 1, H or 1, T or 1, S].
Value toMask(TensorBuilder &n, Value mask, Value query, Value key) {
  if (!getElement(mask).isInteger(1))
    mask = n.convert(mask, getElement(query));
  if (getRank(mask) > 4)
    mask = toRankFour(n, mask);
  SmallVector<int64_t> shape(getShape(mask));
  while (shape.size() < 4)
    shape.insert(shape.begin(), 1);
  mask = n.reshape(mask, shape);
  if (shape[2] != 1)
    shape[2] = getShape(query)[2];
  shape[3] = getShape(key)[2];
  return n.broadcast(mask, shape);
}

/// Builds the mask `key index <= query index`. PyTorch's `is_causal` means this mask, even if there
/// are more keys than queries.
Value buildTopLeftMask(TensorBuilder &n, Value query, Value key) {
  auto type = RankedTensorType::get({1, 1, getShape(query)[2], getShape(key)[2]}, n.i64());
  return n.compare(ps::Predicate::Le, n.make<ps::IotaOp>(type, 3), n.make<ps::IotaOp>(type, 2));
}

/// Repeats the G key or value heads of [B, G, S, D] to [B, H, S, D] for grouped-query attention.
Value repeatGroups(TensorBuilder &n, Value x, int64_t heads) {
  SmallVector<int64_t> shape(getShape(x)), apart{shape[0], shape[1], 1, shape[2], shape[3]};
  if (shape[1] == heads)
    return x;
  if (!shape[1] || heads % shape[1]) {
    (void)n.fail("has " + Twine(heads) + " query heads for " + Twine(shape[1]) +
                 " key and value heads; expected a multiple of the number of key and value heads");
    return x;
  }
  SmallVector<int64_t> repeated(apart);
  repeated[2] = heads / shape[1];
  shape[1] = heads;
  return n.reshape(n.broadcast(n.reshape(x, apart), repeated), shape);
}

/// Returns the scores with -infinity where `seen` is false.
Value hideScores(TensorBuilder &n, Value scores, Value seen) {
  RankedTensorType type = getType(scores);
  return n.make<ps::SelectOp>(n.broadcast(seen, type.getShape()), scores,
                              n.splat(type, -std::numeric_limits<double>::infinity()));
}

/// Builds softmax(scale query key^T + mask) value from single ops. Operands must have 4 dims, and
/// `parts.scale` must be set. Unlike `ps.attention`, this form has a gradient of the mask, and
/// supports every type. If the mask is not trained, the result is zero for a query without visible
/// keys, as in PyTorch.
Value buildWrittenOut(TensorBuilder &n, const AttentionParts &parts) {
  int64_t heads = getShape(parts.query)[1];
  Value key = repeatGroups(n, parts.key, heads), value = repeatGroups(n, parts.value, heads);
  if (n.failed())
    return parts.query;
  Value scores = buildMatmul(n, parts.query, n.swapDims(key, 2, 3));
  RankedTensorType type = getType(scores);
  scores = n.make<ps::MulOp>(scores, n.splat(type, *parts.scale));
  bool hides = parts.mask && !isFloat(parts.mask);
  if (hides)
    scores = hideScores(n, scores, parts.mask);
  else if (parts.mask)
    scores = n.make<ps::AddOp>(scores, n.broadcast(parts.mask, type.getShape()));
  if (parts.causal)
    scores = hideScores(n, scores, buildTopLeftMask(n, parts.query, key));
  Value wide = n.widen(scores), sees;
  if (parts.mask && !dependsOnTrained(parts.mask)) {
    Value most = n.reduce(ps::ReductionKind::Max, wide, {3}, true);
    Value none = n.splat(getType(most), -std::numeric_limits<double>::infinity());
    sees = n.broadcast(n.compare(ps::Predicate::Ne, most, none), getShape(wide));
    wide = n.make<ps::SelectOp>(sees, wide, n.splat(getType(wide), 0));
  }
  Value probabilities = buildAlongDim<ps::SoftmaxOp>(n, wide, 3);
  if (sees)
    probabilities = n.make<ps::SelectOp>(sees, probabilities, n.splat(getType(probabilities), 0));
  probabilities =
      buildDropout(n, n.convert(probabilities, type.getElementType()), parts.dropout, true);
  return buildMatmul(n, probabilities, value);
}

} // namespace

Value buildAttention(TensorBuilder &n, const AttentionParts &parts) {
  Value query = parts.query, key = parts.key, value = parts.value;
  bool causal = parts.causal;
  if (std::min({getRank(query), getRank(key), getRank(value)}) < 2) {
    (void)n.fail("has a query, key or value with fewer than 2 dims");
    return query;
  }
  SmallVector<int64_t> shape(getShape(query));
  query = toRankFour(n, query), key = toRankFour(n, key), value = toRankFour(n, value);
  int64_t batch = std::max(getShape(query)[0], getShape(key)[0]);
  for (Value *operand : {&query, &key, &value}) {
    SmallVector<int64_t> whole(getShape(*operand));
    whole[0] = batch;
    *operand = n.broadcast(*operand, whole);
  }
  double scale = parts.scale.value_or(1 / std::sqrt(double(shape.back())));
  Value mask = parts.mask ? toMask(n, parts.mask, query, key) : Value();
  if (causal && getShape(query)[2] != getShape(key)[2]) {
    if (mask)
      (void)n.fail("is causal and has a mask, with different numbers of keys and queries, which is "
                   "not supported");
    mask = buildTopLeftMask(n, query, key);
    causal = false;
  }
  if (n.failed())
    return query;
  // Attention libraries do not support f64.
  if (getElement(query).isF64() || (mask && isFloat(mask) && dependsOnTrained(mask))) {
    SmallVector<int64_t> whole(shape);
    whole.back() = getShape(value).back();
    Value result = buildWrittenOut(n, {query, key, value, mask, causal, parts.dropout, scale});
    return n.failed() ? query : n.reshape(result, whole);
  }
  // Kernels need query, key and value heads of the same size.
  int64_t valueSize = getShape(value).back(), size = std::max(valueSize, getShape(query).back());
  query = padFeatures(n, query, size), key = padFeatures(n, key, size);
  value = padFeatures(n, value, size);
  ArrayRef<int64_t> resultShape = getShape(query);
  Type element = getElement(query), wide = element.isF64() ? element : n.f32();
  auto op = n.make<ps::AttentionOp>(
      RankedTensorType::get(resultShape, element),
      RankedTensorType::get(resultShape.drop_back(), wide), query, key, value, mask,
      /*padding=*/Value(), /*random_key=*/Value(), /*micro_batch=*/Value(), /*offset=*/Value(),
      causal ? n.b.getUnitAttr() : UnitAttr(),
      /*window=*/IntegerAttr(), n.b.getF64FloatAttr(scale), n.b.getF64FloatAttr(parts.dropout),
      n.b.getBoolAttr(true),
      /*global_size=*/IntegerAttr(), /*factor_sizes=*/DenseI64ArrayAttr(),
      /*factor_strides=*/DenseI64ArrayAttr());
  Value result = n.slice(op.getResult(), 3, 0, valueSize);
  shape.back() = valueSize;
  return n.reshape(result, shape);
}

} // namespace parashard::import
