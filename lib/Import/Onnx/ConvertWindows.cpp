// Convolutions and pooling.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

/// Sizes beyond this are a damaged file; products of two are no overflow.
constexpr int64_t kMostPositions = INT32_MAX;

/// What a node says about its windows, before anything is computed from it.
struct WindowAttributes {
  SmallVector<int64_t> in, kernel, strides, dilations, low, high;
  std::string padding; ///< `auto_pad`
  bool isCeil = false;

  unsigned getSpace() const { return in.size(); }
  /// The elements from the first to the last that a window covers.
  int64_t getExtent(unsigned d) const { return (kernel[d] - 1) * dilations[d] + 1; }
  bool isSame() const { return padding == "SAME_UPPER" || padding == "SAME_LOWER"; }
  /// Half of `total` before and half behind; what is odd stands behind for SAME_UPPER.
  void splitPadding(unsigned d, int64_t total) {
    low[d] = padding == "SAME_UPPER" ? total / 2 : total - total / 2;
    high[d] = total - low[d];
  }
};

/// The attribute `name` with one number a space dim; `otherwise` where it is absent.
SmallVector<int64_t> readList(OnnxNode &n, StringRef name, size_t count, int64_t least,
                              int64_t otherwise) {
  SmallVector<int64_t> numbers = n.integers(name);
  if (numbers.empty())
    return SmallVector<int64_t>(count, otherwise);
  if (numbers.size() != count)
    (void)n.fail("has " + Twine(numbers.size()) + " numbers in '" + name + "'; expected " +
                 Twine(count));
  for (int64_t number : numbers)
    if (number < least || number > kMostPositions)
      (void)n.fail("has " + Twine(number) + " in '" + name + "'; expected at least " +
                   Twine(least) + (number > kMostPositions ? ", and less than 2^31" : ""));
  numbers.resize(count, otherwise);
  return numbers;
}

/// `kernel`: the sizes of a weight, which an attribute may repeat; empty where there is none.
WindowAttributes readWindows(OnnxNode &n, Value x, ArrayRef<int64_t> kernel) {
  WindowAttributes given;
  if (getRank(x) < 3) {
    (void)n.fail("has windows over " + debugString(x.getType()) +
                 "; expected batch, channels and space");
    return given;
  }
  llvm::append_range(given.in, getShape(x).drop_front(2));
  unsigned space = given.getSpace();
  given.kernel = readList(n, "kernel_shape", space, 1, 1);
  if (!kernel.empty() && n.hasAttribute("kernel_shape") && ArrayRef(given.kernel) != kernel)
    (void)n.fail("has a 'kernel_shape' that is not its weight's");
  if (!kernel.empty())
    given.kernel.assign(kernel.begin(), kernel.end());
  else if (!n.hasAttribute("kernel_shape"))
    (void)n.fail("has no 'kernel_shape'");
  given.strides = readList(n, "strides", space, 1, 1);
  given.dilations = readList(n, "dilations", space, 1, 1);
  SmallVector<int64_t> pads = readList(n, "pads", 2 * space, 0, 0);
  given.low.assign(pads.begin(), pads.begin() + space);
  given.high.assign(pads.begin() + space, pads.end());
  given.padding = n.string("auto_pad", "NOTSET");
  given.isCeil = n.integer("ceil_mode", 0) && given.padding == "NOTSET";
  if (!given.isSame() && given.padding != "NOTSET" && given.padding != "VALID")
    (void)n.fail("has the padding '" + given.padding +
                 "'; expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  if (given.padding != "NOTSET" && !n.hasAttribute("output_shape") &&
      llvm::any_of(pads, [](int64_t pad) { return pad != 0; }))
    (void)n.fail("has both 'pads' and 'auto_pad' = '" + given.padding +
                 "'; export the model with one of them");
  for (int64_t size : llvm::concat<const int64_t>(given.in, given.kernel))
    if (size < 1 || size > kMostPositions)
      (void)n.fail("has a dim or a kernel of size " + Twine(size) +
                   "; expected at least 1, and less than 2^31");
  if (given.kernel.size() != space)
    (void)n.fail("has a kernel with " + Twine(given.kernel.size()) + " dims for " + Twine(space));
  return given;
}

/// The windows that slide over `in`: as many as fit, with `ceil_mode` one more that begins before
/// the padding behind.
int64_t countWindows(const WindowAttributes &given, unsigned d) {
  int64_t free = given.in[d] + given.low[d] + given.high[d] - given.getExtent(d);
  if (free < 0)
    return 0;
  int64_t stride = given.strides[d], count = free / stride + 1;
  bool begins = count * stride < given.in[d] + given.low[d];
  return count + (given.isCeil && free % stride != 0 && begins);
}

/// Places the windows of a convolution or a pool; `high` becomes what "auto_pad" means.
SpaceWindows placeWindows(OnnxNode &n, WindowAttributes &given) {
  SpaceWindows windows;
  for (unsigned d = 0; d < given.getSpace() && !n.failed(); ++d) {
    if (given.padding != "NOTSET")
      given.low[d] = given.high[d] = 0;
    if (given.isSame()) {
      int64_t last = (given.in[d] - 1) / given.strides[d] * given.strides[d];
      given.splitPadding(d, std::max<int64_t>(0, last + given.getExtent(d) - given.in[d]));
    }
    windows.out.push_back(countWindows(given, d));
    if (windows.out.back() < 1)
      (void)n.fail("has windows over " + Twine(given.getExtent(d)) + " elements of a dim of size " +
                   Twine(given.in[d]) + " with padding of " + Twine(given.low[d]) + " and " +
                   Twine(given.high[d]));
  }
  windows.kernel = given.kernel;
  windows.strides = given.strides;
  windows.low = given.low;
  windows.dilation = given.dilations;
  return windows;
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// The operands of a convolution; fails where the weight has no kernel.
struct ConvolutionOperands {
  explicit ConvolutionOperands(OnnxNode &n)
      : x(n.input(0)), weight(n.input(1)), bias(n.optionalInput(2)), groups(n.integer("group", 1)) {
    if (!n.failed() && (getRank(x) < 3 || getRank(weight) != getRank(x)))
      (void)n.fail("has a weight " + debugString(weight.getType()) + " for " +
                   debugString(x.getType()));
  }
  ArrayRef<int64_t> getKernel() const { return getShape(weight).drop_front(2); }
  Value x, weight, bias;
  int64_t groups;
};

LogicalResult convertConv(OnnxNode &n) {
  ConvolutionOperands conv(n);
  if (n.failed())
    return failure();
  WindowAttributes given = readWindows(n, conv.x, conv.getKernel());
  SpaceWindows windows = placeWindows(n, given);
  int64_t channels = getShape(conv.x)[1], perGroup = getShape(conv.weight)[1];
  if (conv.groups < 1 || channels / conv.groups != perGroup || channels % conv.groups != 0)
    return n.fail("has " + Twine(conv.groups) + " groups of " + Twine(perGroup) + " channels for " +
                  debugString(conv.x.getType()));
  if (n.failed())
    return failure();
  Value y = buildConvolution(n, conv.x, conv.weight, conv.bias, windows);
  return n.failed() ? failure() : n.set(y);
}

/// The sizes of a transposed convolution's result; the padding becomes what "auto_pad" or the sizes
/// that the node asks for mean. Behind what the windows reach are zeros.
SmallVector<int64_t> placeTransposed(OnnxNode &n, WindowAttributes &given) {
  unsigned space = given.getSpace();
  SmallVector<int64_t> added = readList(n, "output_padding", space, 0, 0), sizes;
  SmallVector<int64_t> asked = n.integers("output_shape");
  if (asked.size() > space) // with batch and channels
    asked.erase(asked.begin(), asked.end() - space);
  bool isAsked = !asked.empty() || given.isSame();
  if (!asked.empty() && asked.size() != space)
    (void)n.fail("has " + Twine(asked.size()) + " sizes in 'output_shape'; expected " +
                 Twine(space));
  for (unsigned d = 0; d < space && !n.failed(); ++d) {
    int64_t full = (given.in[d] - 1) * given.strides[d] + added[d] + given.getExtent(d);
    if (given.padding == "VALID")
      given.low[d] = given.high[d] = 0;
    sizes.push_back(isAsked ? asked.empty() ? given.in[d] * given.strides[d] : asked[d]
                            : full - given.low[d] - given.high[d]);
    if (sizes.back() < 1 || sizes.back() > kMostPositions)
      (void)n.fail("has a result of size " + Twine(sizes.back()) + " along space dim " + Twine(d));
    else if (isAsked)
      given.splitPadding(d, std::max<int64_t>(0, full - sizes.back()));
  }
  return sizes;
}

LogicalResult convertConvTranspose(OnnxNode &n) {
  ConvolutionOperands conv(n);
  if (n.failed())
    return failure();
  WindowAttributes given = readWindows(n, conv.x, conv.getKernel());
  if (n.failed())
    return failure();
  SmallVector<int64_t> sizes = placeTransposed(n, given);
  int64_t perGroup = getShape(conv.weight)[1];
  if (conv.groups < 1 || conv.groups > kMostPositions || perGroup > kMostPositions)
    return n.fail("has " + Twine(conv.groups) + " groups");
  if (n.failed())
    return failure();
  SpaceWindows windows{given.kernel, given.strides, given.low, given.dilations, sizes};
  Value y = buildTransposedConvolution(n, conv.x, conv.weight, conv.bias, windows,
                                       conv.groups * perGroup);
  return n.failed() ? failure() : n.set(y);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

LogicalResult convertMaxPool(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed() || failed(n.onlyResults(1, "the places of the maxima")))
    return failure();
  n.haveNoEffect({"storage_order"}); // of the places
  WindowAttributes given = readWindows(n, x, {});
  SpaceWindows windows = placeWindows(n, given);
  Value y = n.failed() ? x : buildMaxPool(n, x, windows);
  return n.failed() ? failure() : n.set(y);
}

LogicalResult convertAveragePool(OnnxNode &n) {
  Value x = n.input(0);
  if (n.failed())
    return failure();
  WindowAttributes given = readWindows(n, x, {});
  SpaceWindows windows = placeWindows(n, given);
  AverageDivisor by{given.high, n.integer("count_include_pad", 0) != 0};
  Value y = n.failed() ? x : buildAveragePool(n, x, windows, by);
  return n.failed() ? failure() : n.set(y);
}

/// One window over all of space.
std::optional<SpaceWindows> coverSpace(OnnxNode &n, Value x) {
  if (!n.failed() && getRank(x) < 3)
    (void)n.fail("has " + debugString(x.getType()) + "; expected batch, channels and space");
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
