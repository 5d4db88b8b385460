// Attention as cuDNN's graphs.
#ifndef PSRT_DEVICE_CUDA_CUDNN_ATTENTIONGRAPH_H
#define PSRT_DEVICE_CUDA_CUDNN_ATTENTIONGRAPH_H

#include "runtime/device/cuda/cudnn/Plan.h"
#include <array>

namespace psrt::cuda {

/// Attention, or its gradient, with the masks that its buffers have.
struct AttentionProblem {
  AttentionOp op;
  bool hasMask = false, hasPadding = false;

  bool hasBias() const { return hasMask || hasPadding; }
  /// Masks and padding are added to scores, as f32 that a kernel of ours writes before (-inf where
  /// it is hidden): sizes [b, h, t, s], 1 where it is the same for all.
  std::array<int64_t, 4> getBiasSizes() const;
  /// Masks may have numbers so low that a row of them has a log-sum which cannot hold the sum: all
  /// its probabilities are 1 then. Results are right where its cotangent is divided by the sum,
  /// which a kernel of ours does before: a dense copy of dout.
  bool scalesDout() const { return op.grad && hasMask && op.maskDtype != Dtype::Bool; }
};

/// Whether it can be said to cuDNN: elements are bf16 or f16, rows lie at multiples of 16 bytes,
/// the diagonal is that of a square, there is no dropout (whose bits are ours).
bool hasAttentionGraph(const AttentionProblem &problem);

/// In graphs, tensors are called by their numbers in AttentionOp, from 1 on; what is added to
/// scores is called as the mask. These are numbers, one of the host each: what scores are
/// multiplied by, -inf, and the window.
inline constexpr int64_t kScaleId = 100, kHiddenId = 101, kWindowId = 102;

/// One operation of cuDNN 9.21 or later. Throws a CudnnFailure where cuDNN does not take it.
DnnGraph makeAttentionGraph(const DnnTarget &target, const AttentionProblem &problem);

/// An engine that wants more workspace is passed over: gradients are added up in f32.
int64_t getMostWorkspace(const AttentionOp &op);

/// In messages, and to tell problems apart: "attention gradient, bf16, 16x12x1024x64, causal, ...".
std::string describeAttention(const AttentionProblem &problem);

} // namespace psrt::cuda

#endif
