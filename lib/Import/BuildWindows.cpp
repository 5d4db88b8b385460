// Builds convolutions and pooling. Average pooling becomes a reshape and a reduction if its windows
// are adjacent and without padding, else a convolution with ones.
#include "lib/Import/BuildOps.h"
#include "lib/Import/HostValue.h"
#include "lib/Import/Shapes.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Maximum of each size, stride, dilation and padding. Larger numbers indicate a damaged file. The
/// product of two such numbers fits i64.
constexpr int64_t kMaxPositions = INT32_MAX;

unsigned getSpace(const SpaceWindows &windows) { return windows.kernel.size(); }

/// Returns the index of the first element that window `window` covers. The index is negative in the
/// padding.
int64_t getBegin(const SpaceWindows &windows, unsigned d, int64_t window) {
  return window * windows.strides[d] - windows.low[d];
}

bool checkList(TensorBuilder &n, ArrayRef<int64_t> list, StringRef name, size_t space,
               int64_t least) {
  if (list.size() != space)
    (void)n.fail("has " + Twine(list.size()) + " numbers as " + name + " for " + Twine(space) +
                 " spatial dims");
  for (int64_t number : list)
    if (number < least || number > kMaxPositions)
      (void)n.fail("has " + Twine(number) + " in its " + name + "; expected at least " +
                   Twine(least) + (number > kMaxPositions ? ", and less than 2^31" : ""));
  return !n.failed();
}

SmallVector<int64_t> replaceSpace(Value x, ArrayRef<int64_t> sizes) {
  SmallVector<int64_t> shape(getShape(x).take_front(2));
  shape.append(sizes.begin(), sizes.end());
  return shape;
}

bool checkShape(TensorBuilder &n, ArrayRef<int64_t> shape) {
  if (!isPossibleShape(shape))
    (void)n.fail("has windows or a result with " + kImpossibleShape);
  return !n.failed();
}

/// Fails unless x is [N, C, spatial...] and `windows` has valid entries for each spatial dim.
bool checkWindows(TensorBuilder &n, const SpaceWindows &windows, Value x) {
  size_t space = getSpace(windows);
  if (space == 0 || getRank(x) != int64_t(space) + 2)
    (void)n.fail("has windows over " + describeCount(space, "dim") + " of " +
                 debugString(x.getType()) + "; expected batch, channels and these spatial dims");
  if (!isFloat(x))
    (void)n.fail("is of " + debugString(getElement(x)) +
                 ", which is not supported; expected floats");
  return !n.failed() && checkList(n, windows.kernel, "kernel", space, 1) &&
         checkList(n, windows.strides, "strides", space, 1) &&
         checkList(n, windows.low, "padding", space, 0) &&
         checkList(n, windows.dilation, "dilation", space, 1) &&
         checkList(n, windows.out, "result's sizes", space, 1) &&
         checkList(n, getShape(x).drop_front(2), "operand's sizes", space, 1) &&
         checkShape(n, replaceSpace(x, windows.out)) && checkShape(n, windows.kernel);
}

bool checkWeight(TensorBuilder &n, Value x, Value weight, Value bias) {
  if (getRank(x) < 3 || getRank(weight) != getRank(x))
    (void)n.fail("has a weight " + debugString(weight.getType()) + " for " +
                 debugString(x.getType()) + "; expected equal numbers of dims, at least 3");
  else if (getElement(weight) != getElement(x))
    (void)n.fail("has a weight of another element type than " + debugString(x.getType()));
  else if (llvm::is_contained(getShape(weight), 0))
    (void)n.fail("has an empty weight " + debugString(weight.getType()));
  if (bias && getRank(bias) != 1)
    (void)n.fail("has a bias with " + describeCount(getRank(bias), "dim") + "; expected 1");
  return !n.failed();
}

/// Returns the number of zeros that must be added after the `size` elements of x along spatial dim
/// d, so that window `last` begins within the padded x. `ps.convolution` itself pads `low` zeros
/// before and after x.
int64_t getExcess(const SpaceWindows &windows, unsigned d, int64_t last, int64_t size) {
  return std::max<int64_t>(0, getBegin(windows, d, last) - size - windows.low[d] + 1);
}

} // namespace

Value buildConvolution(TensorBuilder &n, Value x, Value weight, Value bias,
                       const SpaceWindows &windows) {
  if (!checkWeight(n, x, weight, bias) || !checkWindows(n, windows, x))
    return x;
  int64_t perGroup = getShape(weight)[1], groups = getShape(x)[1] / perGroup;
  if (getShape(x)[1] % perGroup != 0 || groups == 0 || getShape(weight)[0] % groups != 0) {
    (void)n.fail("has a weight " + debugString(weight.getType()) + " for " +
                 describeCount(getShape(x)[1], "channel") + ", which do not form whole groups");
    return x;
  }
  SmallVector<int64_t> none(getRank(x), 0), high(none);
  for (unsigned d = 0; d < getSpace(windows); ++d)
    high[d + 2] = getExcess(windows, d, windows.out[d] - 1, getShape(x)[d + 2]);
  x = buildPad(n, x, none, high, 0);
  SmallVector<int64_t> shape = replaceSpace(x, windows.out);
  shape[1] = getShape(weight)[0];
  if (!checkShape(n, shape))
    return x;
  Value y = n.make<ps::ConvolutionOp>(getType(x).clone(shape), x, weight, windows.strides,
                                      windows.low, windows.dilation);
  return applyToChannels(n, y, Value(), bias);
}

Value buildTransposedConvolution(TensorBuilder &n, Value x, Value weight, Value bias,
                                 const SpaceWindows &windows, int64_t channels) {
  if (!checkWeight(n, x, weight, bias) || !checkWindows(n, windows, x))
    return x;
  int64_t perGroup = getShape(weight)[1];
  if (getShape(weight)[0] != getShape(x)[1] || channels < 1 || channels % perGroup != 0 ||
      getShape(x)[1] % (channels / perGroup) != 0) {
    (void)n.fail("has a weight " + debugString(weight.getType()) + " between " +
                 Twine(getShape(x)[1]) + " and " + describeCount(channels, "channel") +
                 ", which do not form whole groups");
    return x;
  }
  SmallVector<int64_t> sizes(windows.out), none(getRank(x), 0), cut(none);
  for (unsigned d = 0; d < getSpace(windows); ++d) {
    int64_t excess = getExcess(windows, d, getShape(x)[d + 2] - 1, sizes[d]);
    sizes[d] += excess;
    cut[d + 2] = -excess;
  }
  SmallVector<int64_t> shape = replaceSpace(x, sizes);
  shape[1] = channels;
  if (!checkShape(n, shape))
    return x;
  Value y = n.make<ps::ConvolutionInputOp>(getType(x).clone(shape), x, weight, windows.strides,
                                           windows.low, windows.dilation);
  return applyToChannels(n, buildPad(n, y, none, cut, 0), Value(), bias);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

/// Fails if a window only covers padding. Such a window has no maximum, and its average would
/// divide by 0.
static bool checkPool(TensorBuilder &n, const SpaceWindows &windows, Value x) {
  if (!checkWindows(n, windows, x))
    return false;
  for (unsigned d = 0; d < getSpace(windows); ++d) {
    int64_t end = getBegin(windows, d, 0) + (windows.kernel[d] - 1) * windows.dilation[d];
    if (end < 0 || getBegin(windows, d, windows.out[d] - 1) >= getShape(x)[d + 2])
      (void)n.fail("has a window with only padding along spatial dim " + Twine(d) + " of " +
                   debugString(x.getType()));
  }
  return !n.failed();
}

Value buildMaxPool(TensorBuilder &n, Value x, const SpaceWindows &windows) {
  if (!checkPool(n, windows, x))
    return x;
  return n.make<ps::MaxPoolOp>(getType(x).clone(replaceSpace(x, windows.out)), x, windows.kernel,
                               windows.strides, windows.low, windows.dilation);
}

namespace {

/// Returns true if windows are adjacent, do not overlap, and do not extend beyond x.
bool isTiling(const SpaceWindows &windows, Value x) {
  for (unsigned d = 0; d < getSpace(windows); ++d)
    if (windows.strides[d] != windows.kernel[d] || windows.low[d] != 0 ||
        (windows.dilation[d] != 1 && windows.kernel[d] != 1) ||
        windows.out[d] * windows.kernel[d] > getShape(x)[d + 2])
      return false;
  return true;
}

/// Sums windows that tile x. Reshapes each spatial dim to two dims [window, element of the window],
/// and reduces the second dim.
Value sumTiles(TensorBuilder &n, Value x, const SpaceWindows &windows) {
  SmallVector<int64_t> shape(getShape(x).take_front(2)), dims;
  for (unsigned d = 0; d < getSpace(windows); ++d) {
    x = n.slice(x, d + 2, 0, windows.out[d] * windows.kernel[d]);
    shape.append({windows.out[d], windows.kernel[d]});
    dims.push_back(2 * d + 3);
  }
  return n.reduce(ps::ReductionKind::Sum, n.reshape(x, shape), dims, false);
}

/// Sums windows of any form, by a convolution of each channel with ones.
Value sumWindows(TensorBuilder &n, Value x, const SpaceWindows &windows) {
  SmallVector<int64_t> shape{getShape(x)[1], 1};
  shape.append(windows.kernel);
  Value ones = n.splat(getType(x).clone(shape), 1);
  return n.make<ps::ConvolutionOp>(getType(x).clone(replaceSpace(x, windows.out)), x, ones,
                                   windows.strides, windows.low, windows.dilation);
}

/// Returns the number of elements in [first, limit) along spatial dim d that a window covers, if
/// the window begins at `begin`.
int64_t countTaps(const SpaceWindows &windows, unsigned d, int64_t begin, int64_t first,
                  int64_t limit) {
  auto tapFrom = [&](int64_t position) {
    return std::clamp<int64_t>(
        position <= begin ? 0 : llvm::divideCeil(position - begin, windows.dilation[d]), 0,
        windows.kernel[d]);
  };
  return tapFrom(limit) - tapFrom(first);
}

/// Returns the number of elements of each window along spatial dim d.
SmallVector<double> countPositions(Value x, const SpaceWindows &windows, const AverageDivisor &by,
                                   unsigned d) {
  int64_t low = by.includesPadding ? windows.low[d] : 0;
  int64_t high = by.includesPadding ? by.high[d] : 0;
  SmallVector<double> counts;
  for (int64_t p = 0; p < windows.out[d]; ++p)
    counts.push_back(
        double(countTaps(windows, d, getBegin(windows, d, p), -low, getShape(x)[d + 2] + high)));
  return counts;
}

/// Divides `sums` by the number of elements of each window. This number is the product of the
/// numbers of elements along each dim.
Value divideByCounts(TensorBuilder &n, Value sums, Value x, const SpaceWindows &windows,
                     const AverageDivisor &by) {
  double common = 1;
  Value divisor;
  for (unsigned d = 0; d < getSpace(windows); ++d) {
    SmallVector<double> counts = countPositions(x, windows, by, d);
    if (llvm::all_equal(counts)) {
      common *= counts.front();
      continue;
    }
    SmallVector<int64_t> column(getSpace(windows) - d, 1);
    column[0] = windows.out[d];
    Value spread = n.broadcast(n.constant(RankedTensorType::get(column, getElement(sums)), counts),
                               getShape(sums));
    divisor = divisor ? n.make<ps::MulOp>(divisor, spread) : spread;
  }
  if (!divisor)
    return n.divide(sums, common);
  if (common != 1)
    divisor = n.make<ps::MulOp>(divisor, n.splat(getType(divisor), common));
  return n.make<ps::DivOp>(sums, divisor);
}

} // namespace

Value buildAveragePool(TensorBuilder &n, Value x, const SpaceWindows &windows,
                       const AverageDivisor &by) {
  if (!checkPool(n, windows, x) || !checkList(n, by.high, "padding after", getSpace(windows), 0))
    return x;
  Type element = getElement(x);
  x = n.widen(x);
  bool tiles = isTiling(windows, x);
  Value sums = tiles ? sumTiles(n, x, windows) : sumWindows(n, x, windows);
  if (by.divisor != 0 || tiles) {
    double elements = double(llvm::product_of(windows.kernel));
    return n.convert(n.divide(sums, by.divisor != 0 ? by.divisor : elements), element);
  }
  for (int64_t out : windows.out)
    if (out > kMaxHostElements) {
      (void)n.fail(
          "averages " + Twine(out) +
          " overlapping or padded windows along a dim, which is not supported; expected at most " +
          Twine(kMaxHostElements));
      return x;
    }
  return n.convert(divideByCounts(n, sums, x, windows, by), element);
}

SpaceWindows tileSpace(Value x, ArrayRef<int64_t> out) {
  SpaceWindows windows;
  for (auto [in, count] : llvm::zip(getShape(x).take_back(out.size()), out))
    windows.kernel.push_back(in / count);
  windows.strides = windows.kernel;
  windows.low.assign(out.size(), 0);
  windows.dilation.assign(out.size(), 1);
  windows.out.assign(out.begin(), out.end());
  return windows;
}

} // namespace parashard::import
