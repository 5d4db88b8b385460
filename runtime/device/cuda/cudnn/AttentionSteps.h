// Graphs of attention as they are made: tensors, numbers, and operations on them.
#ifndef PSRT_DEVICE_CUDA_CUDNN_ATTENTIONSTEPS_H
#define PSRT_DEVICE_CUDA_CUDNN_ATTENTIONSTEPS_H

#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include <deque>

namespace psrt::cuda {

/// Buffers of heads in their order.
std::vector<int> getHeads(const AttentionOp &op);

CudnnGraph makeUnifiedAttention(const CudnnTarget &target, const AttentionProblem &problem);
CudnnGraph makeCompositeAttention(const CudnnTarget &target, const AttentionProblem &problem);

/// Operations and what they are made of, in memory that does not move.
class AttentionSteps {
public:
  AttentionSteps(const CudnnTarget &target, const AttentionProblem &problem)
      : target(target), problem(problem), op(problem.op) {}

protected:
  using Tensor = const Descriptor;

  Tensor &keep(Descriptor descriptor, const char *what) {
    return kept.emplace_back(std::move(descriptor)).finalize(what);
  }
  /// A buffer of heads; `isTurned`: with its last two dims exchanged.
  Tensor &makeHeads(int buffer, bool isTurned = false);
  /// In memory, dense.
  Tensor &makeTensor(int64_t id, Dtype dtype, const std::vector<int64_t> &sizes);
  /// A number that the host gives to each run.
  Tensor &makeNumber(int64_t id, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  /// Something that is computed on the way; dense where no strides are given.
  Tensor &makeInside(cudnnDataType_t type, const std::vector<int64_t> &sizes,
                     std::vector<int64_t> strides = {});
  /// That of each score.
  Tensor &makeScores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return makeInside(type, {op.b, op.h, op.t, op.s});
  }
  cudnnDataType_t getHeadType() const {
    return op.dtype == Dtype::F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
  }

  /// y = mode(x, b, t), those that are not there null, in arithmetic of that type; gives y.
  Tensor &addPointwise(cudnnPointwiseMode_t mode, cudnnDataType_t arithmetic, Tensor &y, Tensor &x,
                       Tensor *b = nullptr, Tensor *t = nullptr, int64_t axis = -1);
  /// The scores and what masks and padding are.
  Tensor &addBias(Tensor &scores);
  /// -inf where a query does not see a key: query i sees key j where i >= j, and where
  /// j + window > i, which is computed in `windowType`. Places are asked of `from`; null: of what
  /// is masked.
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
  /// The scores where x mode b, else -inf.
  Tensor &addSelect(Tensor &scores, cudnnPointwiseMode_t mode, Tensor &x, Tensor &b);

  Tensor *hidden = nullptr;
};

} // namespace psrt::cuda

#endif
