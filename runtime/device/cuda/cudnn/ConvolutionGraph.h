// Convolutions as cuDNN's graphs.
#ifndef PSRT_DEVICE_CUDA_CUDNN_CONVOLUTIONGRAPH_H
#define PSRT_DEVICE_CUDA_CUDNN_CONVOLUTIONGRAPH_H

#include "runtime/device/cuda/cudnn/Plan.h"

namespace psrt::cuda {

/// Whether it can be said to cuDNN: elements are f32, bf16 or f16, there are some, and the last
/// windows end less than a stride before the image does.
bool hasConvolutionGraph(const ConvolutionOp &op);

/// The graph of one convolution that has one: its value or one of its gradients, by
/// ConvolutionOp::result. Tensors are called by their numbers there, from 1 on. Sums are f32.
/// Throws a CudnnFailure where cuDNN does not take it.
CudnnGraph makeConvolutionGraph(const CudnnTarget &target, const ConvolutionOp &op);
/// The sizes of a tensor by its number in ConvolutionOp, as cuDNN is told: batch or kernels,
/// channels, places of two or three dims.
std::vector<int64_t> getConvolutionSizes(const ConvolutionOp &op, int tensor);

/// In messages, and to tell problems apart: "convolution value, bf16, x 8x3x32x32, ...".
std::string describeConvolution(const ConvolutionOp &op);

} // namespace psrt::cuda

#endif
