// Attention as cuDNN's graphs.
#ifndef PSRT_DEVICE_CUDA_CUDNN_ATTENTIONGRAPH_H
#define PSRT_DEVICE_CUDA_CUDNN_ATTENTIONGRAPH_H

#include "runtime/device/cuda/cudnn/Plan.h"
#include <array>

namespace psrt::cuda {

/// How attention is said to cuDNN.
enum class AttentionForm {
  Unified,  ///< as one operation, since 9.21
  Composite ///< as all that it is made of, which cuDNN knows again
};

/// Attention, or its gradient, with the masks that its buffers have.
struct AttentionProblem {
  AttentionOp op;
  bool hasMask = false, hasPadding = false;
  AttentionForm form = AttentionForm::Unified;
  /// Composite gradients add up those of queries in f32, as parts of them come: two runs differ.
  /// Else all gradients of scores lie in the workspace before, in 16 bits.
  bool addsUpQueries = false;

  bool isComposite() const { return form == AttentionForm::Composite; }
  bool hasBias() const { return hasMask || hasPadding; }
  /// Masks and padding are added to scores, as f32 that a kernel of ours writes before (-inf where
  /// it is hidden): sizes [b, h, t, s], 1 where it is the same for all.
  std::array<int64_t, 4> getBiasSizes() const;
  /// Masks may have numbers so low that a row of them has a log-sum which cannot hold the sum: all
  /// its probabilities are 1 then. Results are right where its cotangent is divided by the sum,
  /// which a kernel of ours does before: a dense copy of dout.
  bool scalesDout() const { return op.grad && hasMask && op.maskDtype != Dtype::Bool; }
  /// Composite gradients subtract the log-sum of a row that sees nothing, -inf, from scores that
  /// are -inf. A kernel of ours writes log-sums before that have inf there.
  bool copiesLse() const { return op.grad && hasBias() && isComposite(); }
  int64_t countScores() const { return op.b * op.h * op.t * op.s; }
};

/// The strides of a buffer of heads: batch, head, row.
const std::array<int64_t, 3> &getStrides(const AttentionOp &op, int buffer);

/// The form that a version of cuDNN takes for it.
AttentionForm chooseForm(size_t version, const AttentionOp &op);

/// Whether it can be said to cuDNN: elements are bf16 or f16, rows lie at multiples of 16 bytes,
/// the diagonal is that of a square, and where there is dropout its mask fits into kMostScoreBytes.
bool hasAttentionGraph(const AttentionProblem &problem);

/// Something in 16 bits for each score: what dropout keeps, or gradients of scores. Larger problems
/// stay with our kernels, which need neither.
inline constexpr int64_t kMostScoreBytes = int64_t(1) << 30;

/// In graphs, tensors are called by their numbers in AttentionOp, from 1 on; what is added to
/// scores is called as the mask. These are numbers, one of the host each: what scores are
/// multiplied by, -inf, the window (an integer in the unified form, else f32), and with dropout
/// what is kept, and one over it (1 in gradients without dropout).
inline constexpr int64_t kScaleId = 100, kHiddenId = 101, kWindowId = 102, kKeptScaleId = 103,
                         kKeptPartId = 104;
/// Memory besides the buffers: 1 where dropout keeps a probability, else 0, in the type of the
/// heads; sums of rows of dout times out, [b, h, t]; and gradients of queries, [b, h, t, d], both
/// f32, which cuDNN works in.
inline constexpr int64_t kKeptId = 110, kRowSumsId = 111, kQuerySumsId = 112;

/// Throws a CudnnFailure where cuDNN does not take it.
CudnnGraph makeAttentionGraph(const CudnnTarget &target, const AttentionProblem &problem);

/// An engine that wants more workspace is passed over: gradients are added up in f32, those of
/// scores may lie there.
int64_t getMostWorkspace(const AttentionProblem &problem);

/// In messages, and to tell problems apart: "attention gradient, bf16, 16x12x1024x64, causal, ...".
std::string describeAttention(const AttentionProblem &problem);

} // namespace psrt::cuda

#endif
