// Expresses attention as one SDPA operation, with a graph that masks the scores.
#include "runtime/device/cuda/cudnn/AttentionSteps.h"

namespace psrt::cuda {
namespace {

/// cuDNN's names of an operation and its attributes.
struct Operation {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t scale, lse, mask, maskInput, maskOutput;
};
constexpr Operation kForward = {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_INPUT_UID,
                                CUDNN_ATTR_OPERATION_SDPA_FWD_SUBGRAPH_OUTPUT_UID};
constexpr Operation kBackward = {CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_INPUT_UID,
                                 CUDNN_ATTR_OPERATION_SDPA_BWD_SUBGRAPH_OUTPUT_UID};

/// Attributes of q, k, v, out and their gradients, in the order of getHeads().
constexpr cudnnBackendAttributeName_t kForwardHeads[] = {
    CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC,
    CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC};
constexpr cudnnBackendAttributeName_t kBackwardHeads[] = {
    CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC,   CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC,   CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC,
    CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,  CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC};

class Unified : AttentionSteps {
public:
  using AttentionSteps::AttentionSteps;

  CudnnGraph build() {
    const Operation &names = op.grad ? kBackward : kForward;
    Descriptor operation(target.library, names.type);
    const cudnnBackendAttributeName_t *name = op.grad ? kBackwardHeads : kForwardHeads;
    for (int buffer : getHeads(op))
      operation.set(*name++, makeHeads(buffer));
    operation.set(names.lse, makeTensor(AttentionOp::Lse + 1, Dtype::F32, {op.b, op.h, op.t, 1}))
        .set(names.scale, makeNumber(kScaleId));
    addMask(operation, names);
    operation.finalize("attention");
    CudnnGraph result(std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
    result.push_back(std::move(operation));
    finishGraph(target, result, "a graph of attention");
    return result;
  }

private:
  /// Adds the graph that cuDNN applies to the scores between the two matmuls.
  void addMask(Descriptor &operation, const Operation &names) {
    if (!problem.hasBias() && !op.causal && op.window == 0)
      return;
    Tensor *scores = &makeScores(), &first = *scores;
    int64_t firstId = lastInside;
    if (problem.hasBias())
      scores = &addBias(*scores);
    addDiagonal(*scores, CUDNN_DATA_INT32, &first);
    operation.set(names.mask, keep(describeGraph(target, steps), "a mask"))
        .set(names.maskInput, firstId)
        .set(names.maskOutput, lastInside);
  }
};

} // namespace

CudnnGraph makeUnifiedAttention(const CudnnTarget &target, const AttentionProblem &problem) {
  return Unified(target, problem).build();
}

} // namespace psrt::cuda
