// Max and average pooling. A sum over windows that do not overlap is a reduction of a reshape, of
// others a convolution with ones.
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Windows over the last dims of a value, which has batch and channels before them.
struct Pool {
  Value x;
  SmallVector<int64_t> kernel, strides, low, dilation, out;

  unsigned getSpace() const { return kernel.size(); }
  ArrayRef<int64_t> getIn() const { return getShape(x).take_back(getSpace()); }
  /// Neighbouring windows touch and cover nothing beyond x.
  bool isTiling() const {
    for (unsigned d = 0; d < getSpace(); ++d)
      if (strides[d] != kernel[d] || low[d] != 0 || out[d] * kernel[d] > getIn()[d])
        return false;
    return true;
  }
  SmallVector<int64_t> getResultShape() const {
    SmallVector<int64_t> shape(getShape(x).drop_back(getSpace()));
    shape.append(out);
    return shape;
  }
};

SmallVector<int64_t> spreadOver(ArrayRef<int64_t> numbers, ArrayRef<int64_t> otherwise) {
  if (numbers.size() == otherwise.size())
    return SmallVector<int64_t>(numbers);
  if (numbers.empty())
    return SmallVector<int64_t>(otherwise);
  return SmallVector<int64_t>(otherwise.size(), numbers.front());
}

/// x with batch and channels, whichever the model leaves out.
Value addLeadingDims(NodeConverter &n, Value x, int64_t space) {
  SmallVector<int64_t> shape(getShape(x));
  while (int64_t(shape.size()) < space + 2)
    shape.insert(shape.begin(), 1);
  return n.reshape(x, shape);
}

template <unsigned kSpace> Pool readPool(NodeConverter &n) {
  Pool pool;
  SmallVector<int64_t> ones(kSpace, 1), zeros(kSpace, 0);
  pool.x = addLeadingDims(n, n.tensor("self"), kSpace);
  pool.kernel = spreadOver(n.integers("kernel_size"), ones);
  pool.strides = spreadOver(n.integers("stride"), pool.kernel);
  pool.low = spreadOver(n.integers("padding"), zeros);
  pool.dilation = spreadOver(n.integers("dilation"), ones);
  ArrayRef<int64_t> expected = n.getResultType().getShape();
  pool.out.assign(expected.end() - kSpace, expected.end());
  return pool;
}

//===----------------------------------------------------------------------===//
// Max
//===----------------------------------------------------------------------===//

LogicalResult buildMaxPool(NodeConverter &n, const Pool &pool) {
  if (n.failed())
    return failure();
  auto type = RankedTensorType::get(pool.getResultShape(), getElement(pool.x));
  Value y = n.make<ps::MaxPoolOp>(type, pool.x, pool.kernel, pool.strides, pool.low, pool.dilation);
  return n.set(n.reshape(y, n.getResultType().getShape())); // places are only for its backward
}

template <unsigned kSpace> LogicalResult convertMaxPool(NodeConverter &n) {
  if (!isFloat(n.tensor("self")))
    return n.fail("is of integers, which is not supported");
  return buildMaxPool(n, readPool<kSpace>(n));
}

//===----------------------------------------------------------------------===//
// Average
//===----------------------------------------------------------------------===//

/// Sums of windows that tile x: each dim becomes window x place.
Value sumTiles(NodeConverter &n, const Pool &pool) {
  Value x = pool.x;
  int64_t lead = getRank(x) - pool.getSpace();
  SmallVector<int64_t> shape(getShape(x).take_front(lead)), dims;
  for (unsigned d = 0; d < pool.getSpace(); ++d) {
    x = n.slice(x, lead + d, 0, pool.out[d] * pool.kernel[d]);
    shape.append({pool.out[d], pool.kernel[d]});
    dims.push_back(lead + 2 * d + 1);
  }
  return n.reduce(ps::ReductionKind::Sum, n.reshape(x, shape), dims, false);
}

/// Sums of any windows: each channel convolved with ones.
Value sumWindows(NodeConverter &n, const Pool &pool) {
  SmallVector<int64_t> shape{getShape(pool.x)[1], 1};
  shape.append(pool.kernel);
  Value ones = n.splat(RankedTensorType::get(shape, getElement(pool.x)), 1);
  auto type = RankedTensorType::get(pool.getResultShape(), getElement(pool.x));
  return n.make<ps::ConvolutionOp>(type, pool.x, ones, pool.strides, pool.low, pool.dilation);
}

/// By what each window's sum is divided: how many places it has, those of the padding included or
/// not; what lies beyond the padding (a last window rounded up) never counts.
SmallVector<double> countPlaces(const Pool &pool, bool includesPadding) {
  SmallVector<double> counts{1};
  for (unsigned d = 0; d < pool.getSpace(); ++d) {
    SmallVector<double> next;
    int64_t in = pool.getIn()[d];
    for (double count : counts)
      for (int64_t p = 0; p < pool.out[d]; ++p) {
        int64_t begin = p * pool.strides[d] - pool.low[d];
        int64_t end = std::min(begin + pool.kernel[d], in + pool.low[d]);
        if (!includesPadding)
          begin = std::max<int64_t>(begin, 0), end = std::min(end, in);
        next.push_back(count * double(end - begin));
      }
    counts = next;
  }
  return counts;
}

template <unsigned kSpace> LogicalResult convertAveragePool(NodeConverter &n) {
  Pool pool = readPool<kSpace>(n);
  bool includesPadding = n.boolean("count_include_pad", true);
  double divisor = n.number("divisor_override", 0);
  if (n.failed())
    return failure();
  Type element = getElement(pool.x);
  pool.x = n.widen(pool.x);
  Value sum = pool.isTiling() ? sumTiles(n, pool) : sumWindows(n, pool);
  SmallVector<double> counts = countPlaces(pool, includesPadding);
  if (divisor != 0 || llvm::all_equal(counts)) {
    sum = n.divide(sum, divisor != 0 ? divisor : counts.front());
  } else {
    Value by = makeConstant(n, RankedTensorType::get(pool.out, getElement(sum)), counts);
    sum = n.make<ps::DivOp>(sum, n.broadcast(by, getShape(sum)));
  }
  return n.set(n.reshape(n.convert(sum, element), n.getResultType().getShape()));
}

//===----------------------------------------------------------------------===//
// Adaptive
//===----------------------------------------------------------------------===//

/// Place p of `out` averages elements [floor(p in / out), ceil((p + 1) in / out)) of a dim.
Value averageDim(NodeConverter &n, Value x, int64_t dim, int64_t out) {
  int64_t in = getShape(x)[dim], rank = getRank(x);
  if (in == out)
    return x;
  SmallVector<double> weights(out * in, 0);
  for (int64_t p = 0; p < out; ++p) {
    int64_t begin = p * in / out, end = ((p + 1) * in + out - 1) / out;
    for (int64_t i = begin; i < end; ++i)
      weights[p * in + i] = 1 / double(end - begin);
  }
  Value matrix = makeConstant(n, RankedTensorType::get({out, in}, getElement(x)), weights);
  auto labels = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> result(labels);
  result[dim] = rank;
  return n.contract(x, labels, matrix, {rank, dim}, result);
}

/// The windows of an adaptive pool whose result divides each dim; nullopt where it does not.
template <unsigned kSpace> std::optional<Pool> readTiles(NodeConverter &n) {
  Pool pool;
  pool.x = addLeadingDims(n, n.tensor("self"), kSpace);
  ArrayRef<int64_t> expected = n.getResultType().getShape();
  for (auto [in, out] : llvm::zip(getShape(pool.x).take_back(kSpace), expected.take_back(kSpace))) {
    if (out == 0 || in % out != 0)
      return std::nullopt;
    pool.kernel.push_back(in / out);
    pool.out.push_back(out);
  }
  pool.strides = pool.kernel;
  pool.low.assign(kSpace, 0);
  pool.dilation.assign(kSpace, 1);
  return pool;
}

template <unsigned kSpace> LogicalResult convertAdaptiveAverage(NodeConverter &n) {
  Value x = n.tensor("self");
  if (n.failed())
    return failure();
  Type element = getElement(x);
  ArrayRef<int64_t> expected = n.getResultType().getShape();
  if (std::optional<Pool> pool = readTiles<kSpace>(n)) {
    pool->x = n.widen(pool->x);
    x = n.divide(sumTiles(n, *pool), double(llvm::product_of(pool->kernel)));
  } else {
    x = n.widen(x);
    for (int64_t dim = getRank(x) - kSpace; dim < getRank(x); ++dim)
      x = averageDim(n, x, dim, expected[dim]);
  }
  return n.set(n.reshape(n.convert(x, element), expected));
}

template <unsigned kSpace> LogicalResult convertAdaptiveMax(NodeConverter &n) {
  std::optional<Pool> pool = readTiles<kSpace>(n);
  if (!pool)
    return n.fail("has windows of several sizes, which is not supported; give it a size that "
                  "divides its operand's");
  return buildMaxPool(n, *pool);
}

} // namespace

void addPoolingConverters(ConverterTable &table) {
  table["aten.max_pool1d"] = convertMaxPool<1>;
  table["aten.max_pool2d"] = convertMaxPool<2>;
  table["aten.max_pool3d"] = convertMaxPool<3>;
  table["aten.max_pool1d_with_indices"] = convertMaxPool<1>;
  table["aten.max_pool2d_with_indices"] = convertMaxPool<2>;
  table["aten.max_pool3d_with_indices"] = convertMaxPool<3>;
  table["aten.avg_pool1d"] = convertAveragePool<1>;
  table["aten.avg_pool2d"] = convertAveragePool<2>;
  table["aten.avg_pool3d"] = convertAveragePool<3>;
  table["aten.adaptive_avg_pool1d"] = convertAdaptiveAverage<1>;
  table["aten.adaptive_avg_pool2d"] = convertAdaptiveAverage<2>;
  table["aten._adaptive_avg_pool2d"] = convertAdaptiveAverage<2>;
  table["aten.adaptive_avg_pool3d"] = convertAdaptiveAverage<3>;
  table["aten._adaptive_avg_pool3d"] = convertAdaptiveAverage<3>;
  table["aten.adaptive_max_pool1d"] = convertAdaptiveMax<1>;
  table["aten.adaptive_max_pool2d"] = convertAdaptiveMax<2>;
  table["aten.adaptive_max_pool3d"] = convertAdaptiveMax<3>;
}

} // namespace parashard::import
