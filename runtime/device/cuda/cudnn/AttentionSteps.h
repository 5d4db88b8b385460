// Builds cuDNN graphs of attention from tensors, scalars and operations.
#ifndef PSRT_DEVICE_CUDA_CUDNN_ATTENTIONSTEPS_H
#define PSRT_DEVICE_CUDA_CUDNN_ATTENTIONSTEPS_H

#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include <deque>

namespace psrt::cuda {

/// Returns the buffers of heads in a fixed order: q, k, v, out and, for a gradient, dout, dq, dk
/// and dv.
std::vector<int> getHeads(const AttentionOp &op);

CudnnGraph makeUnifiedAttention(const CudnnTarget &target, const AttentionProblem &problem);
CudnnGraph makeCompositeAttention(const CudnnTarget &target, const AttentionProblem &problem);

/// Holds the operations and tensors of a graph at stable addresses.
class AttentionSteps {
public:
  AttentionSteps(const CudnnTarget &target, const AttentionProblem &problem)
      : target(target), problem(problem), op(problem.op) {}

protected:
  using Tensor = const Descriptor;

  Tensor &keep(Descriptor descriptor, const char *name) {
    return kept.emplace_back(std::move(descriptor)).finalize(name);
  }
  /// Adds a buffer of heads; `isTransposed` swaps its last two dims.
  Tensor &makeHeads(int buffer, bool isTransposed = false);
  /// Adds a dense tensor in memory.
  Tensor &makeTensor(int64_t id, Dtype dtype, const std::vector<int64_t> &sizes);
  /// Adds a scalar that the host passes to each run.
  Tensor &makeNumber(int64_t id, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// Adds an intermediate (virtual) tensor; dense if no strides are given.
  Tensor &makeInside(cudnnDataType_t type, const std::vector<int64_t> &sizes,
                     std::vector<int64_t> strides = {});
  /// Adds an intermediate tensor with one element per score.
  Tensor &makeScores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return makeInside(type, {op.b, op.h, op.t, op.s});
  }
  cudnnDataType_t getHeadType() const {
    return op.dtype == Dtype::F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  }

  /// Adds y = mode(x, b, t), computed in type `arithmetic`. Operands that `mode` does not have are
  /// null. Returns y.
  Tensor &addPointwise(cudnnPointwiseMode_t mode, cudnnDataType_t arithmetic, Tensor &y, Tensor &x,
                       Tensor *b = nullptr, Tensor *t = nullptr, int64_t axis = -1);
  /// Adds the sum of the scores and the bias that represents the mask and the padding
  /// (getBiasSizes). Returns the sum.
  Tensor &addBias(Tensor &scores);
  /// Adds steps that set a score to -inf if the query does not see the key. Query i sees key j if i
  /// >= j (causal) and j + window > i (with a window). The sum j + window has the type
  /// `windowType`. The indices i and j are generated from the shape of `from`, or from the shape of
  /// the scores if `from` is null.
  Tensor &addDiagonal(Tensor &scores, cudnnDataType_t windowType, Tensor *from = nullptr);

  const CudnnTarget &target;
  const AttentionProblem &problem;
  const AttentionOp &op;
  std::deque<Descriptor> kept;
  std::vector<const Descriptor *> steps;
  int64_t lastInside = 200;

private:
  Tensor &getHidden() {
    if (!hidden)
      hidden = &makeNumber(kHiddenId);
    return *hidden;
  }
  Tensor &addIndex(Tensor &from, int64_t dim);
  /// Adds a selection: the score where the comparison `x mode b` is true, else -inf. Returns the
  /// selected scores.
  Tensor &addSelect(Tensor &scores, cudnnPointwiseMode_t mode, Tensor &x, Tensor &b);

  Tensor *hidden = nullptr;
};

} // namespace psrt::cuda

#endif
