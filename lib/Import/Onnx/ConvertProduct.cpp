// Matrix products, and convolutions that are such.
#include "lib/Import/BuildOps.h"
#include "lib/Import/Onnx/Convert.h"

using namespace mlir;

namespace parashard::import {
namespace {

LogicalResult convertMatMul(OnnxNode &n) {
  Value lhs = n.input(0), rhs = n.input(1);
  if (n.failed())
    return failure();
  if (getRank(lhs) == 3 && getRank(rhs) == 3 && getShape(lhs)[0] == getShape(rhs)[0])
    return n.set(buildBatchMatmul(n, lhs, rhs));
  return n.set(buildMatmul(n, lhs, rhs));
}

Value scale(OnnxNode &n, Value x, double factor) {
  return factor == 1 ? x : n.make<ps::MulOp>(x, n.splat(getType(x), factor));
}

/// alpha * A B + beta * C, where A and B may be transposed.
LogicalResult convertGemm(OnnxNode &n) {
  Value lhs = n.input(0), rhs = n.input(1), bias = n.optionalInput(2);
  double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  if (n.failed())
    return failure();
  if (getRank(lhs) != 2 || getRank(rhs) != 2)
    return n.fail("has operands of " + Twine(getRank(lhs)) + " and " + Twine(getRank(rhs)) +
                  " dims; expected 2");
  if (n.integer("transA", 0))
    lhs = n.swapDims(lhs, 0, 1);
  bool outFirst = n.integer("transB", 0);
  if (alpha == 1 && beta == 1 && bias && getRank(bias) == 1)
    return n.set(buildLinear(n, lhs, rhs, outFirst, bias));
  Value y = scale(n, buildLinear(n, lhs, rhs, outFirst, Value()), alpha);
  if (bias && beta != 0)
    y = n.make<ps::AddOp>(y, scale(n, n.broadcast(bias, getShape(y)), beta));
  return n.failed() ? failure() : n.set(y);
}

/// A convolution whose windows lie side by side (patches of an image): a product with each window.
LogicalResult convertConv(OnnxNode &n) {
  Value x = n.input(0), weight = n.input(1), bias = n.optionalInput(2);
  if (n.failed())
    return failure();
  int64_t rank = getRank(x), numDims = rank - 2;
  ArrayRef<int64_t> window = getShape(weight).drop_front(std::min<int64_t>(2, getRank(weight)));
  SmallVector<int64_t> strides = n.integers("strides");
  if (bias && getRank(bias) != 1)
    return n.fail("has a bias with " + Twine(getRank(bias)) + " dims; expected 1");
  bool isPatches = numDims > 0 && !llvm::is_contained(window, 0) && getRank(weight) == rank &&
                   ArrayRef(strides) == window && n.integer("group", 1) == 1 &&
                   n.string("auto_pad", "NOTSET") == "NOTSET" &&
                   llvm::all_of(n.integers("pads"), [](int64_t pad) { return pad == 0; }) &&
                   llvm::all_of(n.integers("dilations"), [](int64_t step) { return step == 1; });
  if (!isPatches)
    return n.fail("is a convolution whose windows do not lie side by side (strides as large as the "
                  "kernel, no padding, groups or dilation), which is the only form supported");
  // Labels: batch 0, output channel 1, input channel 2, then place and offset of each dim.
  SmallVector<int64_t> shape{getShape(x)[0], getShape(x)[1]}, labels{0, 2}, weightLabels{1, 2},
      resultLabels{0, 1};
  for (int64_t dim = 0; dim < numDims; ++dim) {
    int64_t count = getShape(x)[dim + 2] / window[dim], place = 3 + 2 * dim;
    x = n.slice(x, dim + 2, 0, count * window[dim]);
    shape.append({count, window[dim]});
    labels.append({place, place + 1});
    weightLabels.push_back(place + 1);
    resultLabels.push_back(place);
  }
  Value y = n.contract(n.reshape(x, shape), labels, weight, weightLabels, resultLabels);
  if (bias) {
    SmallVector<int64_t> channels(rank, 1);
    channels[1] = getShape(bias)[0];
    y = n.make<ps::AddOp>(y, n.broadcast(n.reshape(bias, channels), getShape(y)));
  }
  return n.failed() ? failure() : n.set(y);
}

} // namespace

void addOnnxProductConverters(OnnxConverterTable &table) {
  table["MatMul"] = convertMatMul;
  table["Gemm"] = convertGemm;
  table["Conv"] = convertConv;
}

} // namespace parashard::import
