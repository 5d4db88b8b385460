// Describes attention as cuDNN graphs.
#ifndef PSRT_DEVICE_CUDA_CUDNN_ATTENTIONGRAPH_H
#define PSRT_DEVICE_CUDA_CUDNN_ATTENTIONGRAPH_H

#include "runtime/device/cuda/cudnn/Plan.h"
#include <array>

namespace psrt::cuda {

/// Selects how attention is expressed as a cuDNN graph.
enum class AttentionForm {
  Unified,  ///< one SDPA operation (cuDNN 9.21 and later)
  Composite ///< separate matmuls and reductions, whose pattern cuDNN recognizes
};

/// Attention or its gradient, its mask buffers, and its form.
struct AttentionProblem {
  AttentionOp op;
  bool hasMask = false, hasPadding = false;
  AttentionForm form = AttentionForm::Unified;
  /// If set, composite gradients accumulate query gradients in f32 in order of completion, so
  /// results may differ between runs. Otherwise, the workspace stores all score gradients in 16
  /// bits.
  bool addsUpQueries = false;

  bool isComposite() const { return form == AttentionForm::Composite; }
  bool hasBias() const { return hasMask || hasPadding; }
  /// Returns the sizes [b, h, t, s] of the f32 bias that represents the mask and the padding mask.
  /// A size is 1 if the bias is the same along the dim. A kernel of the runtime computes the bias,
  /// which is -inf for hidden keys. Then cuDNN adds the bias to the scores.
  std::array<int64_t, 4> getBiasSizes() const;
  /// Returns true if dout must be scaled. If all elements of a mask row are very low, e.g. -1e38,
  /// the row's log-sum-exp cannot represent the row's sum of exponentials: all recomputed
  /// probabilities are 1. Dividing the row of dout by the sum of these probabilities corrects the
  /// gradients. A kernel of the runtime writes the scaled, dense copy of dout.
  bool scalesDout() const { return op.grad && hasMask && op.maskDtype != Dtype::Bool; }
  /// Returns true if the log-sum-exps must be copied. For a fully masked row, composite gradients
  /// would compute (-inf) - (-inf) = NaN. A kernel of the runtime writes a copy with inf in such
  /// rows.
  bool copiesLse() const { return op.grad && hasBias() && isComposite(); }
  int64_t countScores() const { return op.b * op.h * op.t * op.s; }
};

/// Returns the strides {batch, head, row} of a buffer of heads: q, k, v, out or a gradient of
/// these.
const std::array<int64_t, 3> &getStrides(const AttentionOp &op, int buffer);

/// Returns the form that this version of cuDNN supports for the operation.
AttentionForm chooseForm(size_t version, const AttentionOp &op);

/// Returns true if the problem can be expressed as a cuDNN graph. This requires bf16 or f16
/// elements, sizes above 0, strides that are multiples of 16 bytes, t == s for causal or windowed
/// attention, a dropout below 1, and a dropout mask of at most kMaxScoreBytes.
bool hasAttentionGraph(const AttentionProblem &problem);

/// Limit in bytes on a 16-bit tensor with one element per score, such as the dropout mask or the
/// score gradients. Larger problems use the fallback kernels, which need no such tensor.
inline constexpr int64_t kMaxScoreBytes = int64_t(1) << 30;

/// IDs of the graphs' host scalars, in this order: the scores' scale, -inf, the window (int32 in
/// the unified form, else f32), 1 / keep probability, and the keep probability. The keep
/// probability is 1 without dropout. The ID of an instruction's buffer is its number in AttentionOp
/// plus 1; the bias has the mask's ID.
inline constexpr int64_t kScaleId = 100, kHiddenId = 101, kWindowId = 102, kKeptScaleId = 103,
                         kKeptPartId = 104;
/// IDs of extra tensors: the dropout mask (1 where a probability is kept, else 0; in the heads'
/// dtype), the row sums of dout * out (f32 [b, h, t]), and the query gradients (f32 [b, h, t, d]).
/// cuDNN uses the last two as scratch.
inline constexpr int64_t kKeptId = 110, kRowSumsId = 111, kQuerySumsId = 112;

/// Throws a CudnnFailure if cuDNN does not support the problem.
CudnnGraph makeAttentionGraph(const CudnnTarget &target, const AttentionProblem &problem);

/// Returns the largest allowed workspace in bytes; engines that need more are skipped. The
/// workspace holds f32 accumulators of gradients and may hold score gradients.
int64_t getMostWorkspace(const AttentionProblem &problem);

/// Returns a unique description of the problem, also used in messages. Example: "attention
/// gradient, bf16, 16x12x1024x64, causal, ...".
std::string describeAttention(const AttentionProblem &problem);

} // namespace psrt::cuda

#endif
