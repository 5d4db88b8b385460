// Interpolation along space dims: nearest elements as broadcasts where each is repeated, else, as
// linear interpolation, products with the matrix of weights.
#include "lib/Import/Pt2/Convert.h"
#include <cmath>

using namespace mlir;

namespace parashard::import {
namespace {

/// One dim: `out` places over `in` elements, `scale` elements a place.
struct Resize {
  int64_t in = 1, out = 1;
  double scale = 1;
};

/// The factor of space dim `d`: of the list of the .vec overload, or an argument of its own.
double getFactor(NodeConverter &n, unsigned d, unsigned space) {
  if (const Argument *list = n.node.find("scale_factors");
      list && list->kind != Argument::None && d < list->floats.size())
    return list->floats[d];
  static constexpr StringLiteral names[] = {"scales_d", "scales_h", "scales_w"};
  StringRef name = space == 1 ? "scales" : names[3 - space + d];
  return n.number(name, 0);
}

SmallVector<Resize> readResizes(NodeConverter &n, Value x, unsigned space) {
  SmallVector<Resize> resizes;
  ArrayRef<int64_t> from = getShape(x).take_back(space);
  ArrayRef<int64_t> to = n.getResultType().getShape().take_back(space);
  for (unsigned d = 0; d < space; ++d) {
    double factor = getFactor(n, d, space);
    double scale = factor > 0 ? 1 / factor : double(from[d]) / double(to[d]);
    resizes.push_back({from[d], to[d], scale});
  }
  return resizes;
}

/// The element nearest to each place, as PyTorch finds it: in f32, and whatever the factor where
/// the sizes are equal or the double.
SmallVector<int64_t> getNearest(const Resize &resize) {
  SmallVector<int64_t> nearest;
  bool isWhole = resize.out == resize.in || resize.out == 2 * resize.in;
  for (int64_t p = 0; p < resize.out; ++p) {
    int64_t at = int64_t(std::floor(float(p) * float(resize.scale)));
    nearest.push_back(isWhole ? p * resize.in / resize.out : std::min(at, resize.in - 1));
  }
  return nearest;
}

/// Each element `times` times.
Value repeatDim(NodeConverter &n, Value x, int64_t dim, int64_t times) {
  SmallVector<int64_t> shape(getShape(x)), spread;
  spread = shape;
  spread.insert(spread.begin() + dim + 1, times);
  SmallVector<int64_t> dims;
  for (int64_t d = 0; d < int64_t(spread.size()); ++d)
    if (d != dim + 1)
      dims.push_back(d);
  Value repeated = n.make<ps::BroadcastOp>(RankedTensorType::get(spread, getElement(x)), x, dims);
  shape[dim] *= times;
  return n.reshape(repeated, shape);
}

/// The product along a dim with weights [out, in].
Value mixDim(NodeConverter &n, Value x, int64_t dim, int64_t out, ArrayRef<double> weights) {
  int64_t in = getShape(x)[dim], rank = getRank(x);
  Value matrix = makeConstant(n, RankedTensorType::get({out, in}, getElement(x)), weights);
  auto labels = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> result(labels);
  result[dim] = rank;
  return n.contract(x, labels, matrix, {rank, dim}, result);
}

Value takeNearest(NodeConverter &n, Value x, int64_t dim, const Resize &resize) {
  SmallVector<int64_t> nearest = getNearest(resize);
  if (llvm::equal(nearest, llvm::seq<int64_t>(0, resize.in)))
    return x;
  int64_t times = resize.out / resize.in;
  bool repeats = resize.out % resize.in == 0;
  for (int64_t p = 0; p < resize.out; ++p)
    repeats = repeats && nearest[p] == p / times;
  if (repeats)
    return repeatDim(n, x, dim, times);
  SmallVector<double> weights(resize.out * resize.in, 0);
  for (int64_t p = 0; p < resize.out; ++p)
    weights[p * resize.in + nearest[p]] = 1;
  return mixDim(n, x, dim, resize.out, weights);
}

template <unsigned kSpace> LogicalResult convertNearest(NodeConverter &n) {
  Value x = n.tensor(n.has("input") ? "input" : "self");
  if (n.failed())
    return failure();
  auto resizes = readResizes(n, x, kSpace);
  for (auto [d, resize] : llvm::enumerate(resizes))
    x = takeNearest(n, x, getRank(x) - kSpace + int64_t(d), resize);
  return n.failed() ? failure() : n.set(x);
}

/// Between the two elements around each place; with `alignsCorners` the first and last places are
/// the first and last elements.
Value mixLinear(NodeConverter &n, Value x, int64_t dim, const Resize &resize, bool alignsCorners) {
  if (resize.in == resize.out && (alignsCorners || resize.scale == 1))
    return x;
  SmallVector<double> weights(resize.out * resize.in, 0);
  for (int64_t p = 0; p < resize.out; ++p) {
    double at = std::max(0.0, (double(p) + 0.5) * resize.scale - 0.5);
    if (alignsCorners)
      at = resize.out > 1 ? double(p) * double(resize.in - 1) / double(resize.out - 1) : 0;
    int64_t below = std::min(int64_t(at), resize.in - 1);
    int64_t above = std::min(below + 1, resize.in - 1);
    double rest = std::min(at - double(below), 1.0);
    weights[p * resize.in + below] += 1 - rest;
    weights[p * resize.in + above] += rest;
  }
  return mixDim(n, x, dim, resize.out, weights);
}

template <unsigned kSpace> LogicalResult convertLinear(NodeConverter &n) {
  Value x = n.tensor(n.has("input") ? "input" : "self");
  if (n.failed())
    return failure();
  bool alignsCorners = n.boolean("align_corners", false);
  auto resizes = readResizes(n, x, kSpace);
  for (auto [d, resize] : llvm::enumerate(resizes))
    x = mixLinear(n, x, getRank(x) - kSpace + int64_t(d), resize, alignsCorners);
  return n.failed() ? failure() : n.set(x);
}

} // namespace

void addInterpolationConverters(ConverterTable &table) {
  table["aten.upsample_nearest1d"] = convertNearest<1>;
  table["aten.upsample_nearest2d"] = convertNearest<2>;
  table["aten.upsample_nearest3d"] = convertNearest<3>;
  table["aten.upsample_linear1d"] = convertLinear<1>;
  table["aten.upsample_bilinear2d"] = convertLinear<2>;
  table["aten.upsample_trilinear3d"] = convertLinear<3>;
}

} // namespace parashard::import
