// Converts convolutions and pooling.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"
#include "shared/Counts.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Maximum of each size, stride, dilation and padding. Larger numbers indicate a damaged file. The
/// product of two such numbers fits i64.
constexpr int64_t kMaxPositions = INT32_MAX;

/// The attributes of a node's windows. `placeWindows` and `placeTransposed` compute the padding.
struct WindowAttributes {
  SmallVector<int64_t> in, kernel, strides, dilations, low, high;
  std::string padding; ///< value of `auto_pad`
  bool isCeil = false;

  unsigned getSpace() const { return in.size(); }
  /// Returns the number of elements from the first to the last element of a window.
  int64_t getExtent(unsigned d) const { return (kernel[d] - 1) * dilations[d] + 1; }
  bool isSame() const { return padding == "SAME_UPPER" || padding == "SAME_LOWER"; }
  /// Splits `total` into padding before and after. If `total` is odd, the extra element is after
  /// the dim for SAME_UPPER, else before the dim.
  void splitPadding(unsigned d, int64_t total) {
    low[d] = padding == "SAME_UPPER" ? total / 2 : total - total / 2;
    high[d] = total - low[d];
  }
};

/// Returns the `count` numbers of attribute `name`. If the attribute is missing, each number is
/// `fallback`.
SmallVector<int64_t> readList(OnnxNode &n, StringRef name, size_t count, int64_t least,
                              int64_t fallback) {
  SmallVector<int64_t> numbers = n.integers(name);
  if (numbers.empty())
    return SmallVector<int64_t>(count, fallback);
  if (numbers.size() != count)
    (void)n.fail("has " + Twine(numbers.size()) + " numbers in '" + name + "'; expected " +
                 Twine(count));
  for (int64_t number : numbers)
    if (number < least || number > kMaxPositions)
      (void)n.fail("has " + Twine(number) + " in '" + name + "'; expected at least " +
                   Twine(least) + (number > kMaxPositions ? ", and less than 2^31" : ""));
  numbers.resize(count, fallback);
  return numbers;
}

/// Reads the attributes of windows. `kernel` is the spatial shape of the weight, or empty for
/// pooling. If `kernel` is not empty, the attribute "kernel_shape" must be equal to `kernel`.
WindowAttributes readWindows(OnnxNode &n, Value x, ArrayRef<int64_t> kernel) {
  WindowAttributes attributes;
  if (getRank(x) < 3) {
    (void)n.fail("has windows over " + debugString(x.getType()) +
                 "; expected batch, channels and spatial dims");
    return attributes;
  }
  llvm::append_range(attributes.in, getShape(x).drop_front(2));
  unsigned space = attributes.getSpace();
  attributes.kernel = readList(n, "kernel_shape", space, 1, 1);
  if (!kernel.empty() && n.hasAttribute("kernel_shape") && ArrayRef(attributes.kernel) != kernel)
    (void)n.fail("has a 'kernel_shape' that differs from the shape of its weight");
  if (!kernel.empty())
    attributes.kernel.assign(kernel.begin(), kernel.end());
  else if (!n.hasAttribute("kernel_shape"))
    (void)n.fail("has no 'kernel_shape'");
  attributes.strides = readList(n, "strides", space, 1, 1);
  attributes.dilations = readList(n, "dilations", space, 1, 1);
  SmallVector<int64_t> pads = readList(n, "pads", 2 * space, 0, 0);
  attributes.low.assign(pads.begin(), pads.begin() + space);
  attributes.high.assign(pads.begin() + space, pads.end());
  attributes.padding = n.string("auto_pad", "NOTSET");
  attributes.isCeil = n.integer("ceil_mode", 0) && attributes.padding == "NOTSET";
  if (!attributes.isSame() && attributes.padding != "NOTSET" && attributes.padding != "VALID")
    (void)n.fail("has the padding '" + attributes.padding +
                 "'; expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  if (attributes.padding != "NOTSET" && !n.hasAttribute("output_shape") &&
      llvm::any_of(pads, [](int64_t pad) { return pad != 0; }))
    (void)n.fail("has both 'pads' and 'auto_pad' = '" + attributes.padding +
                 "'; export the model with one of them");
  for (int64_t size : llvm::concat<const int64_t>(attributes.in, attributes.kernel))
    if (size < 1 || size > kMaxPositions)
      (void)n.fail("has a dim or a kernel of size " + Twine(size) +
                   "; expected at least 1, and less than 2^31");
  if (attributes.kernel.size() != space)
    (void)n.fail("has a kernel with " + describeCount(attributes.kernel.size(), "dim") + " for " +
                 Twine(space) + " spatial dims");
  return attributes;
}

/// Returns the number of windows along dim d. With `ceil_mode`, the last window may extend beyond
/// the padding, if it begins before the padding at the end.
int64_t countWindows(const WindowAttributes &attributes, unsigned d) {
  int64_t free =
      attributes.in[d] + attributes.low[d] + attributes.high[d] - attributes.getExtent(d);
  if (free < 0)
    return 0;
  int64_t stride = attributes.strides[d], count = free / stride + 1;
  bool begins = count * stride < attributes.in[d] + attributes.low[d];
  return count + (attributes.isCeil && free % stride != 0 && begins);
}

/// Computes the windows of a convolution or a pool. Sets `low` and `high` as "auto_pad" requires.
SpaceWindows placeWindows(OnnxNode &n, WindowAttributes &attributes) {
  SpaceWindows windows;
  for (unsigned d = 0; d < attributes.getSpace() && !n.failed(); ++d) {
    if (attributes.padding != "NOTSET")
      attributes.low[d] = attributes.high[d] = 0;
    if (attributes.isSame()) {
      int64_t last = (attributes.in[d] - 1) / attributes.strides[d] * attributes.strides[d];
      attributes.splitPadding(
          d, std::max<int64_t>(0, last + attributes.getExtent(d) - attributes.in[d]));
    }
    windows.out.push_back(countWindows(attributes, d));
    if (windows.out.back() < 1)
      (void)n.fail("has windows over " + describeCount(attributes.getExtent(d), "element") +
                   " of a dim of size " + Twine(attributes.in[d]) + " with padding of " +
                   Twine(attributes.low[d]) + " and " + Twine(attributes.high[d]) +
                   ", which do not fit");
  }
  windows.kernel = attributes.kernel;
  windows.strides = attributes.strides;
  windows.low = attributes.low;
  windows.dilation = attributes.dilations;
  return windows;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// The operands of a convolution. The node fails if the weight has no kernel dims.
struct ConvolutionOperands {
  explicit ConvolutionOperands(OnnxNode &n)
      : x(n.input(0)), weight(n.input(1)), bias(n.optionalInput(2)), groups(n.integer("group", 1)) {
    if (!n.failed() && (getRank(x) < 3 || getRank(weight) != getRank(x)))
      (void)n.fail("has a weight " + debugString(weight.getType()) + " for " +
                   debugString(x.getType()) + "; expected equal numbers of dims, at least 3");
  }
  ArrayRef<int64_t> getKernel() const { return getShape(weight).drop_front(2); }
  Value x, weight, bias;
  int64_t groups;
};

LogicalResult convertConv(OnnxNode &n) {
  ConvolutionOperands conv(n);
  if (n.failed())
    return failure();
  WindowAttributes attributes = readWindows(n, conv.x, conv.getKernel());
  SpaceWindows windows = placeWindows(n, attributes);
  int64_t channels = getShape(conv.x)[1], perGroup = getShape(conv.weight)[1];
  if (conv.groups < 1 || channels / conv.groups != perGroup || channels % conv.groups != 0)
    return n.fail("has " + Twine(conv.groups) + " groups of " + describeCount(perGroup, "channel") +
                  " for " + debugString(conv.x.getType()));
  if (n.failed())
    return failure();
  Value y = buildConvolution(n, conv.x, conv.weight, conv.bias, windows);
  return n.failed() ? failure() : n.set(y);
}

/// Computes the spatial shape of a transposed convolution's result. Sets the padding as "auto_pad"
/// or "output_shape" requires. Elements that no window covers are zeros.
SmallVector<int64_t> placeTransposed(OnnxNode &n, WindowAttributes &attributes) {
  unsigned space = attributes.getSpace();
  SmallVector<int64_t> added = readList(n, "output_padding", space, 0, 0), sizes;
  SmallVector<int64_t> requested = n.integers("output_shape");
  if (requested.size() > space) // also has batch and channels
    requested.erase(requested.begin(), requested.end() - space);
  bool isRequested = !requested.empty() || attributes.isSame();
  if (!requested.empty() && requested.size() != space)
    (void)n.fail("has " + describeCount(requested.size(), "size") +
                 " in 'output_shape'; expected " + Twine(space));
  for (unsigned d = 0; d < space && !n.failed(); ++d) {
    int64_t full =
        (attributes.in[d] - 1) * attributes.strides[d] + added[d] + attributes.getExtent(d);
    if (attributes.padding == "VALID")
      attributes.low[d] = attributes.high[d] = 0;
    sizes.push_back(isRequested ? requested.empty() ? attributes.in[d] * attributes.strides[d]
                                                    : requested[d]
                                : full - attributes.low[d] - attributes.high[d]);
    if (sizes.back() < 1 || sizes.back() > kMaxPositions)
      (void)n.fail("has a result of size " + Twine(sizes.back()) + " along spatial dim " +
                   Twine(d));
    else if (isRequested)
      attributes.splitPadding(d, std::max<int64_t>(0, full - sizes.back()));
  }
  return sizes;
}

LogicalResult convertConvTranspose(OnnxNode &n) {
  ConvolutionOperands conv(n);
  if (n.failed())
    return failure();
  WindowAttributes attributes = readWindows(n, conv.x, conv.getKernel());
  if (n.failed())
    return failure();
  SmallVector<int64_t> sizes = placeTransposed(n, attributes);
  int64_t perGroup = getShape(conv.weight)[1];
  if (conv.groups < 1 || conv.groups > kMaxPositions || perGroup > kMaxPositions)
    return n.fail(
        "has " + Twine(conv.groups) +
        " groups; expected at least 1, and fewer than 2^31 groups and channels per group");
  if (n.failed())
    return failure();
  SpaceWindows windows{attributes.kernel, attributes.strides, attributes.low, attributes.dilations,
                       sizes};
  Value y = buildTransposedConvolution(n, conv.x, conv.weight, conv.bias, windows,
                                       conv.groups * perGroup);
  return n.failed() ? failure() : n.set(y);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

LogicalResult convertMaxPool(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed() || failed(n.onlyResults(1, "the indices of the maxima")))
    return failure();
  n.markWithoutEffect({"storage_order"}); // order of the indices
  WindowAttributes attributes = readWindows(n, x, {});
  SpaceWindows windows = placeWindows(n, attributes);
  Value y = n.failed() ? x : buildMaxPool(n, x, windows);
  return n.failed() ? failure() : n.set(y);
}

LogicalResult convertAveragePool(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  WindowAttributes attributes = readWindows(n, x, {});
  SpaceWindows windows = placeWindows(n, attributes);
  AverageDivisor by{attributes.high, n.integer("count_include_pad", 0) != 0};
  Value y = n.failed() ? x : buildAveragePool(n, x, windows, by);
  return n.failed() ? failure() : n.set(y);
}

/// Returns one window over all spatial dims.
std::optional<SpaceWindows> coverSpace(OnnxNode &n, Value x) {
  if (!n.failed() && getRank(x) < 3)
    (void)n.fail("has " + debugString(x.getType()) + "; expected batch, channels and spatial dims");
  if (n.failed())
    return std::nullopt;
  return tileSpace(x, SmallVector<int64_t>(getRank(x) - 2, 1));
}

LogicalResult convertGlobalAverage(OnnxNode &n) {
  Value x = n.input(0);
  std::optional<SpaceWindows> all = coverSpace(n, x);
  Value y = all ? buildAveragePool(n, x, *all, {all->low}) : x;
  return n.failed() ? failure() : n.set(y);
}

LogicalResult convertGlobalMax(OnnxNode &n) {
  Value x = n.input(0);
  std::optional<SpaceWindows> all = coverSpace(n, x);
  Value y = all ? buildMaxPool(n, x, *all) : x;
  return n.failed() ? failure() : n.set(y);
}

} // namespace

void addOnnxWindowConverters(OnnxConverterTable &table) {
  table["Conv"] = convertConv;
  table["ConvTranspose"] = convertConvTranspose;
  table["MaxPool"] = convertMaxPool;
  table["AveragePool"] = convertAveragePool;
  table["GlobalAveragePool"] = convertGlobalAverage;
  table["GlobalMaxPool"] = convertGlobalMax;
}

} // namespace parashard::import
