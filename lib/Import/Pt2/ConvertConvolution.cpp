// Converts convolutions and transposed convolutions.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {

namespace {

/// Returns one number per spatial dim. Repeats a single number for all dims. Returns `fallback` for
/// all dims if the list is empty.
SmallVector<int64_t> spreadOver(ArrayRef<int64_t> numbers, unsigned space, int64_t fallback) {
  if (numbers.size() == space)
    return SmallVector<int64_t>(numbers);
  return SmallVector<int64_t>(space, numbers.empty() ? fallback : numbers.front());
}

/// Reads stride, padding and dilation. With padding "same", the smaller half of the zeros is before
/// the dim. The number of zeros after the dim follows from the result's shape.
LogicalResult readWindows(NodeConverter &n, ArrayRef<int64_t> kernel, SpaceWindows &windows) {
  unsigned space = kernel.size();
  windows.kernel.assign(kernel.begin(), kernel.end());
  windows.strides = spreadOver(n.integers("stride"), space, 1);
  windows.dilation = spreadOver(n.integers("dilation"), space, 1);
  windows.low = spreadOver(n.integers("padding"), space, 0);
  std::string mode = n.string("padding");
  if (mode == "same")
    for (unsigned d = 0; d < space; ++d)
      windows.low[d] = windows.dilation[d] * (kernel[d] - 1) / 2;
  else if (!mode.empty() && mode != "valid")
    return n.fail("has the padding '" + mode + "'; expected 'same' or 'valid'");
  return success(!n.failed());
}

/// Adds a batch dim of size 1 if x has none.
Value addBatch(NodeConverter &n, Value x, int64_t rank) {
  SmallVector<int64_t> shape(getShape(x));
  if (getRank(x) == rank - 1)
    shape.insert(shape.begin(), 1);
  return n.reshape(x, shape);
}

LogicalResult build(NodeConverter &n, bool isTransposed) {
  Value x = n.tensor("input"), w = n.tensor("weight"), bias = n.optionalTensor("bias");
  RankedTensorType expected = n.getResultType();
  n.markTypeOnly({"groups", "output_padding"}); // groups also follow from the weight's shape
  SpaceWindows windows;
  if (n.failed() || getRank(w) < 3 || expected.getRank() < getRank(w) - 1)
    return n.fail("has a weight " + debugString(w.getType()) + " for the result " +
                  debugString(expected) +
                  "; expected at least 3 dims, and matching numbers of dims");
  ArrayRef<int64_t> sizes = expected.getShape().take_back(getRank(w) - 2);
  windows.out.assign(sizes.begin(), sizes.end());
  if (failed(readWindows(n, getShape(w).drop_front(2), windows)))
    return failure();
  x = addBatch(n, x, getRank(w));
  int64_t channels = expected.getDimSize(expected.getRank() - getRank(w) + 1);
  Value y = isTransposed ? buildTransposedConvolution(n, x, w, bias, windows, channels)
                         : buildConvolution(n, x, w, bias, windows);
  return n.failed() ? failure() : n.set(n.reshape(y, expected.getShape()));
}

template <bool kTransposed> LogicalResult convertConvolution(NodeConverter &n) {
  return build(n, kTransposed || n.boolean("transposed", false));
}

} // namespace

void addConvolutionConverters(ConverterTable &table) {
  table["aten.conv1d"] = convertConvolution<false>;
  table["aten.conv2d"] = convertConvolution<false>;
  table["aten.conv3d"] = convertConvolution<false>;
  table["aten.convolution"] = convertConvolution<false>;
  table["aten.conv_transpose1d"] = convertConvolution<true>;
  table["aten.conv_transpose2d"] = convertConvolution<true>;
  table["aten.conv_transpose3d"] = convertConvolution<true>;
}

} // namespace parashard::import
