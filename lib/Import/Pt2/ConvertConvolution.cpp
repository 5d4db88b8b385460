// Convolutions and transposed convolutions.
#include "lib/Import/Pt2/Convert.h"

using namespace mlir;

namespace parashard::import {

Value makeConstant(NodeConverter &n, RankedTensorType type, ArrayRef<double> elements) {
  const llvm::fltSemantics &semantics = cast<FloatType>(type.getElementType()).getFloatSemantics();
  auto values = llvm::map_to_vector(elements, [&](double element) {
    llvm::APFloat value(element);
    bool isInexact;
    (void)value.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &isInexact);
    return value;
  });
  return n.make<ps::ConstantOp>(DenseElementsAttr::get(type, ArrayRef<llvm::APFloat>(values)));
}

Value applyToChannels(NodeConverter &n, Value y, Value weight, Value bias) {
  SmallVector<int64_t> column(getRank(y) - 1, 1);
  auto spread = [&](Value vector) {
    column[0] = getShape(vector)[0];
    return n.broadcast(n.reshape(n.convert(vector, getElement(y)), column), getShape(y));
  };
  if (weight)
    y = n.make<ps::MulOp>(y, spread(weight));
  if (bias)
    y = n.make<ps::AddOp>(y, spread(bias));
  return y;
}

namespace {

struct Windows {
  SmallVector<int64_t> strides, low, dilation;
};

/// `numbers`, one a space dim: one stands for all, none for `otherwise`.
SmallVector<int64_t> spreadOver(ArrayRef<int64_t> numbers, unsigned space, int64_t otherwise) {
  if (numbers.size() == space)
    return SmallVector<int64_t>(numbers);
  return SmallVector<int64_t>(space, numbers.empty() ? otherwise : numbers.front());
}

/// "same" puts the smaller half of its zeros first; what the other half is says the result's type.
LogicalResult readWindows(NodeConverter &n, ArrayRef<int64_t> kernel, Windows &windows) {
  unsigned space = kernel.size();
  windows.strides = spreadOver(n.integers("stride"), space, 1);
  windows.dilation = spreadOver(n.integers("dilation"), space, 1);
  windows.low = spreadOver(n.integers("padding"), space, 0);
  std::string words = n.string("padding");
  if (words == "same")
    for (unsigned d = 0; d < space; ++d)
      windows.low[d] = windows.dilation[d] * (kernel[d] - 1) / 2;
  else if (!words.empty() && words != "valid")
    return n.fail("has the padding '" + words + "'; expected 'same' or 'valid'");
  return success(!n.failed());
}

/// A model may leave the batch out.
Value addBatch(NodeConverter &n, Value x, int64_t rank) {
  SmallVector<int64_t> shape(getShape(x));
  if (getRank(x) == rank - 1)
    shape.insert(shape.begin(), 1);
  return n.reshape(x, shape);
}

LogicalResult build(NodeConverter &n, bool isTransposed) {
  Value x = n.tensor("input"), w = n.tensor("weight"), bias = n.optionalTensor("bias");
  Windows windows;
  if (n.failed() || failed(readWindows(n, getShape(w).drop_front(2), windows)))
    return failure();
  RankedTensorType expected = n.getResultType();
  x = addBatch(n, x, getRank(w));
  SmallVector<int64_t> shape(expected.getShape());
  if (expected.getRank() == getRank(w) - 1)
    shape.insert(shape.begin(), 1);
  auto type = RankedTensorType::get(shape, getElement(x));
  Value y;
  if (isTransposed)
    y = n.make<ps::ConvolutionInputOp>(type, x, w, windows.strides, windows.low, windows.dilation);
  else
    y = n.make<ps::ConvolutionOp>(type, x, w, windows.strides, windows.low, windows.dilation);
  return n.set(n.reshape(applyToChannels(n, y, Value(), bias), expected.getShape()));
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
