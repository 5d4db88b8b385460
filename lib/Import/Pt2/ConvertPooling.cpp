// Converts max and average pooling, and their adaptive forms.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

SmallVector<int64_t> spreadOver(ArrayRef<int64_t> numbers, ArrayRef<int64_t> fallback) {
  if (numbers.size() == fallback.size())
    return SmallVector<int64_t>(numbers);
  if (numbers.empty())
    return SmallVector<int64_t>(fallback);
  return SmallVector<int64_t>(fallback.size(), numbers.front());
}

/// Adds batch and channel dims of size 1 to x if they are missing.
Value addLeadingDims(NodeConverter &n, Value x, int64_t space) {
  SmallVector<int64_t> shape(getShape(x));
  while (int64_t(shape.size()) < space + 2)
    shape.insert(shape.begin(), 1);
  return n.reshape(x, shape);
}

/// Returns the spatial shape of the result. The node fails if the result has too few dims.
template <unsigned kSpace> SmallVector<int64_t> getResultSpace(NodeConverter &n) {
  SmallVector<int64_t> shape(n.getResultType().getShape());
  if (shape.size() >= kSpace)
    return SmallVector<int64_t>(ArrayRef(shape).take_back(kSpace));
  (void)n.fail("has a result with fewer than " + describeCount(kSpace, "dim"));
  return SmallVector<int64_t>(kSpace, 1);
}

template <unsigned kSpace> SpaceWindows readWindows(NodeConverter &n) {
  SpaceWindows windows;
  SmallVector<int64_t> ones(kSpace, 1), zeros(kSpace, 0);
  windows.kernel = spreadOver(n.integers("kernel_size"), ones);
  windows.strides = spreadOver(n.integers("stride"), windows.kernel);
  windows.low = spreadOver(n.integers("padding"), zeros);
  windows.dilation = spreadOver(n.integers("dilation"), ones);
  windows.out = getResultSpace<kSpace>(n);
  n.markTypeOnly({"ceil_mode"});
  return windows;
}

/// Reshapes y to the result's shape, and defines the result.
LogicalResult setPooled(NodeConverter &n, Value y) {
  return n.failed() ? failure() : n.set(n.reshape(y, n.getResultType().getShape()));
}

template <unsigned kSpace> LogicalResult convertMaxPool(NodeConverter &n) {
  Value x = addLeadingDims(n, n.tensor("self"), kSpace);
  SpaceWindows windows = readWindows<kSpace>(n);
  if (n.failed())
    return failure();
  return setPooled(n, buildMaxPool(n, x, windows)); // the indices are only used by the backward
}

template <unsigned kSpace> LogicalResult convertAveragePool(NodeConverter &n) {
  Value x = addLeadingDims(n, n.tensor("self"), kSpace);
  SpaceWindows windows = readWindows<kSpace>(n);
  AverageDivisor by{windows.low, n.boolean("count_include_pad", true),
                    n.number("divisor_override", 0)};
  if (n.failed())
    return failure();
  return setPooled(n, buildAveragePool(n, x, windows, by));
}

//===----------------------------------------------------------------------===//
// Adaptive
//===----------------------------------------------------------------------===//

/// Builds an adaptive average along a dim. Output element p is the mean of the input elements
/// [floor(p * in / out), ceil((p + 1) * in / out)). Example: for in = 5 and out = 2, the ranges are
/// [0, 3) and [2, 5).
Value averageDim(NodeConverter &n, Value x, int64_t dim, int64_t out) {
  int64_t in = getShape(x)[dim];
  if (in == out)
    return x;
  return combineAlongDim(n, x, dim, out, [&](MutableArrayRef<double> weights, int64_t p) {
    int64_t begin = p * in / out, end = ((p + 1) * in + out - 1) / out;
    for (int64_t i = begin; i < end; ++i)
      weights[i] = 1 / double(end - begin);
  });
}

AverageDivisor noPadding(unsigned space) { return {SmallVector<int64_t>(space, 0)}; }

/// Returns true if the size of each spatial dim of x is divisible by the size of the same dim in
/// `out`.
bool isTiled(Value x, ArrayRef<int64_t> out) {
  for (auto [in, count] : llvm::zip(getShape(x).take_back(out.size()), out))
    if (count < 1 || in % count != 0)
      return false;
  return true;
}

template <unsigned kSpace> LogicalResult convertAdaptiveAverage(NodeConverter &n) {
  Value x = addLeadingDims(n, n.tensor("self"), kSpace);
  SmallVector<int64_t> out = getResultSpace<kSpace>(n);
  n.markTypeOnly({"output_size"});
  if (n.failed())
    return failure();
  if (isTiled(x, out))
    return setPooled(n, buildAveragePool(n, x, tileSpace(x, out), noPadding(kSpace)));
  Value y = n.widen(x);
  for (unsigned d = 0; d < kSpace; ++d)
    y = averageDim(n, y, getRank(y) - kSpace + d, out[d]);
  return setPooled(n, n.convert(y, getElement(x)));
}

template <unsigned kSpace> LogicalResult convertAdaptiveMax(NodeConverter &n) {
  Value x = addLeadingDims(n, n.tensor("self"), kSpace);
  SmallVector<int64_t> out = getResultSpace<kSpace>(n);
  n.markTypeOnly({"output_size"});
  if (n.failed())
    return failure();
  if (!isTiled(x, out))
    return n.fail("has windows of several sizes, which is not supported; choose an output size "
                  "that divides the operand's size");
  return setPooled(n, buildMaxPool(n, x, tileSpace(x, out)));
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
