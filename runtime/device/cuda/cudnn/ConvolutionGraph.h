// Describes convolutions as cuDNN graphs.
#ifndef PSRT_DEVICE_CUDA_CUDNN_CONVOLUTIONGRAPH_H
#define PSRT_DEVICE_CUDA_CUDNN_CONVOLUTIONGRAPH_H

#include "runtime/device/cuda/cudnn/Plan.h"

namespace psrt::cuda {

/// Returns true if the convolution can be expressed as a cuDNN graph. This requires f32, bf16 or
/// f16 elements, tensors that are not empty, and last windows that end less than a stride before
/// the end of the image.
bool hasConvolutionGraph(const ConvolutionOp &op);

/// Returns the graph of a convolution or one of its gradients, selected by ConvolutionOp::result.
/// A tensor's ID is its number in ConvolutionOp plus 1. Accumulation is in f32. Throws a
/// CudnnFailure if cuDNN does not support the problem.
CudnnGraph makeConvolutionGraph(const CudnnTarget &target, const ConvolutionOp &op);
/// Returns the sizes of a tensor (a number in ConvolutionOp) as passed to cuDNN: batch (of w:
/// output channels), channels (of w: input channels per group), and two or three spatial dims.
std::vector<int64_t> getConvolutionSizes(const ConvolutionOp &op, int tensor);

/// Returns a unique description of the problem, also used in messages. Example: "convolution
/// forward, bf16, x 8x3x32x32, ...".
std::string describeConvolution(const ConvolutionOp &op);

} // namespace psrt::cuda

#endif
