// Builds the tensors, windows and operation of a convolution's graph.
#include "runtime/device/cuda/cudnn/ConvolutionGraph.h"
#include "runtime/core/Status.h"
#include <algorithm>

namespace psrt::cuda {
namespace {

/// Returns the first of the three spatial dims that is passed to cuDNN: 0 for volumes. For planes,
/// dim 0 is trivial (size 1), so returns 1.
int getFirstDim(const WindowShape &s) {
  bool isTrivial = s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.low[0] == 0;
  return isTrivial ? 1 : 0;
}

std::vector<int64_t> takeDims(const std::array<int64_t, 3> &dims, const WindowShape &s) {
  return {dims.begin() + getFirstDim(s), dims.end()};
}

/// Returns the padding after a dim that results in exactly `out` windows. The padding is negative
/// if the windows end at least a stride before the end of the image. If several paddings are
/// possible, returns the one nearest to `low`, because more cuDNN engines support symmetric
/// padding. Example: in 8, kernel 3, stride 2, low 1 and out 4 allow the paddings 0 and 1; returns
/// 1.
int64_t getHighPadding(const WindowShape &s, int dim) {
  int64_t least = (s.out[dim] - 1) * s.strides[dim] + (s.kernel[dim] - 1) * s.dilation[dim] + 1 -
                  s.in[dim] - s.low[dim];
  int64_t most = least + s.strides[dim] - 1;
  return most < 0 ? most : std::clamp(s.low[dim], std::max<int64_t>(least, 0), most);
}

std::vector<int64_t> getHighPaddings(const WindowShape &s) {
  std::vector<int64_t> result;
  for (int dim = getFirstDim(s); dim < 3; ++dim)
    result.push_back(getHighPadding(s, dim));
  return result;
}

Descriptor makeTensor(const Cudnn &cudnn, const ConvolutionOp &op, int tensor) {
  Descriptor result =
      describeTensor(cudnn, tensor + 1, tensor == op.result ? op.outDtype : op.dtype,
                     getConvolutionSizes(op, tensor));
  result.finalize("a tensor");
  return result;
}

Descriptor makeWindows(const Cudnn &cudnn, const WindowShape &s) {
  Descriptor result(cudnn, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  result.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t(3 - getFirstDim(s)))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, takeDims(s.dilation, s))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, takeDims(s.strides, s))
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, takeDims(s.low, s))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, getHighPaddings(s));
  result.finalize("windows");
  return result;
}

/// cuDNN's names of an operation and its attributes.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, windows, x, w, y;
};
constexpr Operation kOperations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y}};

std::string join(const std::vector<int64_t> &numbers) {
  std::string result;
  for (int64_t number : numbers)
    result += (result.empty() ? "" : "x") + std::to_string(number);
  return result;
}

} // namespace

std::vector<int64_t> getConvolutionSizes(const ConvolutionOp &op, int tensor) {
  const WindowShape &s = op.windows;
  std::vector<int64_t> result;
  if (tensor == ConvolutionOp::X)
    result = {op.batch, op.groups * op.inChannels};
  else if (tensor == ConvolutionOp::W)
    result = {op.groups * op.outChannels, op.inChannels};
  else
    result = {op.batch, op.groups * op.outChannels};
  const std::array<int64_t, 3> &spatial = tensor == ConvolutionOp::X   ? s.in
                                          : tensor == ConvolutionOp::W ? s.kernel
                                                                       : s.out;
  for (int64_t size : takeDims(spatial, s))
    result.push_back(size);
  return result;
}

bool hasConvolutionGraph(const ConvolutionOp &op) {
  for (Dtype dtype : {op.dtype, op.outDtype})
    if (dtype != Dtype::F32 && dtype != Dtype::F16 && dtype != Dtype::BF16)
      return false;
  for (int dim = 0; dim < 3; ++dim)
    if (op.windows.low[dim] < 0 || getHighPadding(op.windows, dim) < 0)
      return false;
  for (int tensor : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y})
    for (int64_t size : getConvolutionSizes(op, tensor))
      if (size <= 0)
        return false;
  return true;
}

CudnnGraph makeConvolutionGraph(const CudnnTarget &target, const ConvolutionOp &op) {
  const Operation &names = kOperations[op.result];
  CudnnGraph result;
  for (int tensor : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y})
    result.push_back(makeTensor(target.library, op, tensor));
  result.push_back(makeWindows(target.library, op.windows));
  Descriptor operation(target.library, names.type);
  operation.set(names.alpha, 1.0f)
      .set(names.beta, 0.0f)
      .set(names.windows, result[3])
      .set(names.x, result[ConvolutionOp::X])
      .set(names.w, result[ConvolutionOp::W])
      .set(names.y, result[ConvolutionOp::Y])
      .finalize("a convolution");
  result.push_back(std::move(operation));
  finishGraph(target, result, "a graph of a convolution");
  return result;
}

std::string describeConvolution(const ConvolutionOp &op) {
  const WindowShape &s = op.windows;
  constexpr const char *kNames[] = {"input gradient", "weight gradient", "forward"};
  std::string types = dtypeName(op.dtype);
  if (op.outDtype != op.dtype)
    types += std::string(" to ") + dtypeName(op.outDtype);
  return format(
      "convolution %s, %s, x %s, w %s, y %s, strides %s, low padding %s, dilations %s, "
      "%lld group%s",
      kNames[op.result], types.c_str(), join(getConvolutionSizes(op, ConvolutionOp::X)).c_str(),
      join(getConvolutionSizes(op, ConvolutionOp::W)).c_str(),
      join(getConvolutionSizes(op, ConvolutionOp::Y)).c_str(), join(takeDims(s.strides, s)).c_str(),
      join(takeDims(s.low, s)).c_str(), join(takeDims(s.dilation, s)).c_str(), (long long)op.groups,
      op.groups == 1 ? "" : "s");
}

} // namespace psrt::cuda
