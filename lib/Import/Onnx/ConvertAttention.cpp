// Converts attention and rotary embedding, which are ONNX ops since opset 23.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "shared/Counts.h"
#include <algorithm>
#include <limits>

using namespace mlir;

namespace parashard::import {
namespace {

/// Reshapes and transposes [B, T, H * D] to [B, H, T, D]. Returns values that do not have 3 dims
/// unchanged.
Value splitHeads(OnnxNode &n, Value x, int64_t heads) {
  ArrayRef<int64_t> shape = getShape(x);
  if (getRank(x) != 3)
    return x;
  if (heads < 1 || shape[2] % heads) {
    (void)n.fail("has features of size " + Twine(shape[2]) + " for " + Twine(heads) +
                 " heads; expected a multiple of the number of heads");
    return x;
  }
  x = n.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  return n.transpose(x, {0, 2, 1, 3});
}

/// Transposes and reshapes [B, H, T, D] to [B, T, H * D].
Value mergeHeads(OnnxNode &n, Value x) {
  ArrayRef<int64_t> shape = getShape(x);
  SmallVector<int64_t> merged{shape[0], shape[2], shape[1] * shape[3]};
  return n.reshape(n.transpose(x, {0, 2, 1, 3}), merged);
}

/// Fails unless all values are [B, H, T, D].
bool haveHeads(OnnxNode &n, ArrayRef<Value> values) {
  for (Value value : values)
    if (getRank(value) != 4)
      (void)n.fail("has an operand " + debugString(value.getType()) + "; expected 3 or 4 dims");
  return !n.failed();
}

/// The window of an attention: the numbers of visible keys to the left and to the right of a query.
/// -1 means unlimited.
struct Window {
  int64_t left = -1, right = -1;
  bool isOpen() const { return left < 0 && right < 0; }
};

Window readWindow(OnnxNode &n) {
  Window window{n.integer("left_window_size", -1), n.integer("right_window_size", -1)};
  if (std::min(window.left, window.right) < -1)
    (void)n.fail("has a window of " + Twine(window.left) + " keys to the left and " +
                 Twine(window.right) + " to the right; expected at least -1");
  return window;
}

/// Builds the mask of a window: query q sees the keys q - left to q + right. Example: left = 1 and
/// right = 0 for three queries and keys give [[1, 0, 0], [1, 1, 0], [0, 1, 1]].
Value buildWindow(OnnxNode &n, Window window, Value query, Value key) {
  auto type = RankedTensorType::get({getShape(query)[2], getShape(key)[2]}, n.i64());
  Value column = n.make<ps::IotaOp>(type, 1), row = n.make<ps::IotaOp>(type, 0), seen;
  auto bound = [&](int64_t distance, ps::Predicate predicate) {
    Value limit = n.make<ps::AddOp>(row, n.splat(type, double(distance)));
    Value side = n.compare(predicate, column, limit);
    seen = seen ? Value(n.make<ps::AndOp>(seen, side)) : side;
  };
  if (window.left >= 0)
    bound(-window.left, ps::Predicate::Ge);
  if (window.right >= 0)
    bound(window.right, ps::Predicate::Le);
  return seen;
}

/// Combines a mask (may be null) with the bool mask of a window. In a bool mask, true means
/// visible. A float mask is added to the scores.
Value joinMasks(OnnxNode &n, Value mask, Value seen) {
  if (!mask)
    return seen;
  SmallVector<int64_t> shape = n.commonShape(mask, seen);
  mask = n.broadcast(mask, shape), seen = n.broadcast(seen, shape);
  if (n.failed())
    return mask;
  if (getElement(mask).isInteger(1))
    return n.make<ps::AndOp>(mask, seen);
  double hidden = -std::numeric_limits<double>::infinity();
  return n.make<ps::SelectOp>(seen, mask, n.splat(getType(mask), hidden));
}

/// Fails if the node requires its softmax in a type that is not supported. f64 is only supported
/// for f64 operands.
void checkSoftmaxPrecision(OnnxNode &n, Value query) {
  constexpr int64_t kNotGiven = 0, kFloat = 1, kHalf = 10, kDouble = 11, kBfloat = 16;
  int64_t type = n.integer("softmax_precision", kNotGiven);
  bool isDouble = type == kDouble && getElement(query).isF64();
  if (!isDouble && !llvm::is_contained({kNotGiven, kFloat, kHalf, kBfloat}, type))
    (void)n.fail("computes its softmax in " + getOnnxDtypeName(type) +
                 ", which is not supported; export it without softmax_precision");
}

/// Adds the window to the mask. The causal mask becomes a window with right = 0 in two cases: the
/// attention also has a window, or it has a mask and different numbers of queries and keys.
void applyWindow(OnnxNode &n, AttentionParts &parts) {
  Window window = readWindow(n);
  bool isSquare = getShape(parts.query)[2] == getShape(parts.key)[2];
  if (parts.causal && (!window.isOpen() || (parts.mask && !isSquare))) {
    window.right = 0;
    parts.causal = false;
  }
  if (!n.failed() && !window.isOpen())
    parts.mask = joinMasks(n, parts.mask, buildWindow(n, window, parts.query, parts.key));
}

LogicalResult convertAttention(OnnxNode &n) {
  AttentionParts parts{n.input(0), n.input(1), n.input(2)};
  parts.mask = n.optionalInput(3);
  if (n.failed() || failed(n.onlyResults(1, "present keys, values or scores")))
    return failure();
  if (n.has(4) || n.has(5) || n.has(6))
    return n.fail("has past keys and values or their lengths, which are not supported; export "
                  "with use_cache=False");
  if (n.number("softcap", 0) != 0)
    return n.fail("has a softcap, which is not supported");
  n.markWithoutEffect(
      {"qk_matmul_output_mode"}); // only affects the result with the scores, which is not supported
  checkSoftmaxPrecision(n, parts.query);
  bool isMerged = getRank(parts.query) == 3;
  int64_t heads = n.integer("q_num_heads", 0);
  parts.query = splitHeads(n, parts.query, heads);
  parts.key = splitHeads(n, parts.key, n.integer("kv_num_heads", heads));
  parts.value = splitHeads(n, parts.value, n.integer("kv_num_heads", heads));
  parts.causal = n.integer("is_causal", 0);
  if (n.hasAttribute("scale"))
    parts.scale = n.number("scale", 1);
  if (n.failed() || !haveHeads(n, {parts.query, parts.key, parts.value}))
    return failure();
  applyWindow(n, parts);
  if (n.failed())
    return failure();
  Value result = buildAttention(n, parts);
  if (n.failed())
    return failure();
  return n.set(isMerged ? mergeHeads(n, result) : result);
}

/// Returns the cosines or sines of each position as [B or 1, 1, T, D / 2]. If `positions` is not
/// null, it contains row indices of `table`.
Value spreadTable(OnnxNode &n, Value table, Value positions) {
  if (positions)
    table = buildRows(n, table, positions, IntegerAttr(), /*wraps=*/false);
  SmallVector<int64_t> shape(getShape(table));
  if (shape.size() != 3) {
    (void)n.fail("has a table of cosines or sines with " + describeCount(shape.size(), "dim") +
                 "; expected 3 (or 2, with position_ids of 2 dims)");
    return table;
  }
  return n.reshape(table, {shape[0], 1, shape[1], shape[2]});
}

/// Rotates pairs of features by their angles. Pair i is (x[2i], x[2i + 1]) if interleaved, else
/// (x[i], x[i + D / 2]).
Value rotate(OnnxNode &n, Value x, Value cosine, Value sine, bool interleaved) {
  SmallVector<int64_t> shape(getShape(x)), apart(ArrayRef(shape).drop_back());
  int64_t half = shape.back() / 2, dim = interleaved ? 4 : 3;
  apart.push_back(half);
  apart.insert(apart.begin() + dim, 2);
  SmallVector<int64_t> single(apart), part(ArrayRef(shape).drop_back());
  single[dim] = 1;
  part.push_back(half);
  Value pairs = n.reshape(x, apart);
  Value first = n.reshape(n.slice(pairs, dim, 0, 1), part);
  Value second = n.reshape(n.slice(pairs, dim, 1, 2), part);
  cosine = n.broadcast(cosine, part), sine = n.broadcast(sine, part);
  if (n.failed())
    return x;
  Value left = n.make<ps::SubOp>(n.make<ps::MulOp>(first, cosine), n.make<ps::MulOp>(second, sine));
  Value right =
      n.make<ps::AddOp>(n.make<ps::MulOp>(first, sine), n.make<ps::MulOp>(second, cosine));
  return n.reshape(n.concat({n.reshape(left, single), n.reshape(right, single)}, dim), shape);
}

LogicalResult convertRotaryEmbedding(OnnxNode &n) {
  Value x = n.input(0), cosine = n.input(1), sine = n.input(2), positions = n.optionalInput(3);
  if (n.failed())
    return failure();
  bool isMerged = getRank(x) == 3;
  x = splitHeads(n, x, n.integer("num_heads", 0));
  if (n.failed() || !haveHeads(n, {x}) || getRank(cosine) < 2 || getRank(sine) < 2)
    return n.fail("has a table of cosines or sines with fewer than 2 dims");
  int64_t size = getShape(x)[3], rotated = n.integer("rotary_embedding_dim", 0);
  rotated = rotated ? rotated : size;
  if (rotated < 0 || rotated % 2 || rotated > size)
    return n.fail("rotates " + Twine(rotated) + " of " + Twine(size) +
                  " features; expected an even number, at most all features");
  cosine = spreadTable(n, cosine, positions), sine = spreadTable(n, sine, positions);
  if (n.failed())
    return failure();
  Value y = rotate(n, n.slice(x, 3, 0, rotated), cosine, sine, n.integer("interleaved", 0));
  if (n.failed())
    return failure();
  if (rotated < size)
    y = n.concat({y, n.slice(x, 3, rotated, size)}, 3);
  return n.set(isMerged ? mergeHeads(n, y) : y);
}

} // namespace

void addOnnxAttentionConverters(OnnxConverterTable &table) {
  table["Attention"] = convertAttention;
  table["RotaryEmbedding"] = convertRotaryEmbedding;
}

} // namespace parashard::import
