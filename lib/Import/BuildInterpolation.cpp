// Builds interpolation, one dim at a time. Nearest-neighbor interpolation becomes a broadcast if
// each element is repeated equally often, else a lookup of the rows of a table (`ps.embedding`).
// Linear interpolation becomes a matmul with a matrix of weights.
#include "lib/Import/BuildOps.h"
#include "lib/Import/HostValue.h"
#include "shared/Counts.h"
#include <cmath>

using namespace mlir;

namespace parashard::import {

/// Maximum size of a resized dim.
static constexpr int64_t kMaxPositions = 1 << 24;
/// Maximum number of elements of the weight matrix, such as 2048 x 2048. Without a limit, each node
/// of a small file could request a large matrix.
static constexpr int64_t kMaxWeights = 1 << 22;

bool checkResize(TensorBuilder &n, int64_t in, int64_t out) {
  if (in >= 1 && out >= 1 && std::max(in, out) <= kMaxPositions)
    return true;
  (void)n.fail("resizes a dim of size " + Twine(in) + " to " + Twine(out) +
               "; expected sizes from 1 to 2^24");
  return false;
}

Value combineAlongDim(
    TensorBuilder &n, Value x, int64_t dim, int64_t out,
    llvm::function_ref<void(MutableArrayRef<double> weights, int64_t position)> fill) {
  int64_t in = getShape(x)[dim], rank = getRank(x);
  if (!isFloat(x))
    (void)n.fail("interpolates elements of " + debugString(x.getType()) + "; expected floats");
  if (!checkResize(n, in, out) || n.failed())
    return x;
  if (in > kMaxWeights / out) {
    (void)n.fail(
        "interpolates " + describeCount(in, "element") + " of a dim at " + Twine(out) +
        " positions, which is not supported; the product of both numbers must be at most 2^22");
    return x;
  }
  std::vector<double> weights(out * in);
  for (int64_t position = 0; position < out; ++position)
    fill(MutableArrayRef(weights).slice(position * in, in), position);
  Value matrix = n.constant(RankedTensorType::get({out, in}, getElement(x)), weights);
  auto labels = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> result(labels);
  result[dim] = rank;
  return n.contract(x, labels, matrix, {rank, dim}, result);
}

SmallVector<int64_t> findNearest(int64_t in, int64_t out, double step) {
  SmallVector<int64_t> nearest;
  bool isWhole = out == in || out == 2 * in;
  for (int64_t p = 0; p < out; ++p) {
    float at = std::floor(float(p) * float(step));
    nearest.push_back(isWhole ? p * in / out : int64_t(std::min(float(in - 1), at)));
  }
  return nearest;
}

/// Repeats each element `times` times.
static Value repeatDim(TensorBuilder &n, Value x, int64_t dim, int64_t times) {
  SmallVector<int64_t> shape(getShape(x)), spread(shape), dims;
  spread.insert(spread.begin() + dim + 1, times);
  for (int64_t d = 0; d < int64_t(spread.size()); ++d)
    if (d != dim + 1)
      dims.push_back(d);
  Value repeated = n.make<ps::BroadcastOp>(RankedTensorType::get(spread, getElement(x)), x, dims);
  shape[dim] *= times;
  return n.reshape(repeated, shape);
}

/// Takes the elements at `indices` along a dim, by a lookup of the rows of a table. A matmul with a
/// 0/1 matrix would turn all elements along the dim into NaN if one of them is infinite.
static Value takePositions(TensorBuilder &n, Value x, int64_t dim, ArrayRef<int64_t> indices) {
  if (!isFloat(x)) {
    (void)n.fail("resizes elements of " + debugString(x.getType()) + "; expected floats");
    return x;
  }
  auto toFront = llvm::to_vector(llvm::seq<int64_t>(0, getRank(x)));
  SmallVector<int64_t> fromFront(toFront);
  std::rotate(toFront.begin(), toFront.begin() + dim, toFront.begin() + dim + 1);
  std::rotate(fromFront.begin(), fromFront.begin() + 1, fromFront.begin() + dim + 1);
  x = n.transpose(x, toFront);
  SmallVector<int64_t> shape(getShape(x));
  Value table = n.reshape(x, {shape[0], getType(x).getNumElements() / shape[0]});
  ps::Tensor index(RankedTensorType::get({int64_t(indices.size())}, n.i64()));
  for (auto [i, position] : llvm::enumerate(indices))
    index.setInt(i, position);
  Value rows = buildRows(n, table, buildHostConstant(n, index), IntegerAttr(), /*wraps=*/false);
  shape[0] = indices.size();
  return n.transpose(n.reshape(rows, shape), fromFront);
}

Value resizeNearest(TensorBuilder &n, Value x, int64_t dim, ArrayRef<int64_t> indices) {
  int64_t in = getShape(x)[dim], out = indices.size();
  if (llvm::equal(indices, llvm::seq<int64_t>(0, in)))
    return x;
  bool repeats = out % in == 0;
  for (int64_t p = 0; p < out; ++p)
    repeats = repeats && indices[p] == p / (out / in);
  if (repeats)
    return repeatDim(n, x, dim, out / in);
  return takePositions(n, x, dim, indices);
}

Value resizeLinear(TensorBuilder &n, Value x, int64_t dim, ArrayRef<double> positions) {
  int64_t in = getShape(x)[dim], out = positions.size();
  if (llvm::equal(positions, llvm::seq<int64_t>(0, in)))
    return x;
  return combineAlongDim(n, x, dim, out, [&](MutableArrayRef<double> weights, int64_t position) {
    double at = std::clamp(positions[position], 0.0, double(in - 1));
    int64_t below = int64_t(at), above = std::min(below + 1, in - 1);
    weights[below] += 1 - (at - double(below));
    weights[above] += at - double(below);
  });
}

} // namespace parashard::import
