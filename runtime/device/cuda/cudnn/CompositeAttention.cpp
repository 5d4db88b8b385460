// Expresses attention as matmuls, reductions and pointwise operations, in the order that cuDNN's
// pattern matcher expects. cuDNN fuses the recognized forward pattern into one kernel that writes
// no tensor of the scores' size. cuDNN only recognizes 16-bit scores and probabilities with f32
// accumulation.
#include "runtime/device/cuda/cudnn/AttentionSteps.h"

namespace psrt::cuda {
namespace {

using A = AttentionOp;

class Composite : AttentionSteps {
public:
  using AttentionSteps::AttentionSteps;

  CudnnGraph build() {
    if (op.grad)
      addGradients();
    else
      addValue();
    keep(describeGraph(target, steps), "a graph of attention");
    return CudnnGraph(std::make_move_iterator(kept.begin()), std::make_move_iterator(kept.end()));
  }

private:
  //===--- operations -----------------------------------------------------===//

  Tensor &addMatmul(Tensor &c, Tensor &a, Tensor &b) {
    Descriptor kind(target.library, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    Descriptor result(target.library, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    result.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(kind), "a matmul operator"))
        .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
        .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
        .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    steps.push_back(&keep(std::move(result), "a matmul of attention"));
    return c;
  }

  Tensor &addReduction(cudnnReduceTensorOp_t reduction, Tensor &y, Tensor &x) {
    Descriptor kind(target.library, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_REDUCTION_OPERATOR, reduction);
    Descriptor result(target.library, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    result.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(kind), "a reduction operator"))
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    steps.push_back(&keep(std::move(result), "a reduction of attention"));
    return y;
  }

  Tensor &addReshape(Tensor &y, Tensor &x) {
    Descriptor result(target.library, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    result.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    steps.push_back(&keep(std::move(result), "a transposed matrix"));
    return y;
  }

  Tensor &addStep(cudnnPointwiseMode_t mode, Tensor &x, Tensor *b = nullptr) {
    return addPointwise(mode, CUDNN_DATA_FLOAT, makeScores(), x, b);
  }
  Tensor &multiply(Tensor &x, Tensor &by) { return addStep(CUDNN_POINTWISE_MUL, x, &by); }

  //===--- shared by the forward and the gradients ---------------------------------------===//

  std::vector<int64_t> getRows() const { return {op.b, op.h, op.t, 1}; }
  Tensor &makeRows() { return makeInside(CUDNN_DATA_FLOAT, getRows()); }
  Tensor &makeLse() { return makeTensor(A::Lse + 1, Dtype::F32, getRows()); }
  Tensor &makeKept() { return makeTensor(kKeptId, op.dtype, {op.b, op.h, op.t, op.s}); }

  /// Adds the scaled scores, plus the bias of both masks if there is one.
  Tensor &addScores(Tensor &q, Tensor &transposedK, Tensor &scale) {
    Tensor &scores = multiply(addMatmul(makeScores(), q, transposedK), scale);
    return problem.hasBias() ? addBias(scores) : scores;
  }
  Tensor &addDiagonal(Tensor &scores) {
    return AttentionSteps::addDiagonal(scores, CUDNN_DATA_FLOAT);
  }

  //===--- the forward ----------------------------------------------------===//

  void addValue() {
    Tensor &scores =
        addDiagonal(addScores(makeHeads(A::Q), makeHeads(A::K, true), makeNumber(kScaleId)));
    Tensor &most = addReduction(CUDNN_REDUCE_TENSOR_MAX, makeRows(), scores);
    Tensor &parts = addStep(CUDNN_POINTWISE_EXP, addStep(CUDNN_POINTWISE_SUB, scores, &most));
    Tensor &sum = addReduction(CUDNN_REDUCE_TENSOR_ADD, makeRows(), parts);
    Tensor &log = addPointwise(CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, makeRows(), sum);
    addPointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, makeLse(), most, &log);
    bool drops = op.dropout > 0;
    Tensor *probabilities =
        &addPointwise(CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT,
                      makeScores(drops ? CUDNN_DATA_FLOAT : getHeadType()), parts, &sum);
    if (drops)
      probabilities =
          &addPointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, makeScores(getHeadType()),
                        multiply(*probabilities, makeNumber(kKeptScaleId)), &makeKept());
    addMatmul(makeHeads(A::Out), *probabilities, makeHeads(A::V));
  }

  //===--- gradients ------------------------------------------------------===//

  /// Adds the row sums of dout * out, times the keep probability. The sums are stored in memory,
  /// because a different kernel reads them.
  Tensor &addRowSums(Tensor &dout) {
    Tensor &products = makeInside(
        CUDNN_DATA_FLOAT, {op.b, op.h, op.t, op.d},
        {op.h * op.t * op.d, op.t * op.d, op.h * op.d, 1}); // strides that cuDNN's pattern expects
    addPointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, products, dout, &makeHeads(A::Out));
    Tensor &sums = addReduction(CUDNN_REDUCE_TENSOR_ADD, makeRows(), products);
    return addPointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT,
                        makeTensor(kRowSumsId, Dtype::F32, getRows()), sums,
                        &makeNumber(kKeptPartId));
  }

  /// Adds the gradient of keys or values: the transpose of `scores` times `rows`. For keys,
  /// `scores` are the score gradients, and `rows` is q. For values, `scores` are the probabilities,
  /// and `rows` is dout. Sums over the query heads that share a key/value head.
  void addKeyGradient(int buffer, Tensor &scores, Tensor &rows) {
    Tensor &transposed = addReshape(makeInside(getHeadType(), {op.b, op.h, op.s, op.t},
                                               {op.h * op.t * op.s, op.t * op.s, 1, op.s}),
                                    scores);
    Tensor &result = makeHeads(buffer);
    if (op.g == op.h) {
      addMatmul(result, transposed, rows);
      return;
    }
    Tensor &all = makeInside(getHeadType(), {op.b, op.h, op.s, op.d});
    addReduction(CUDNN_REDUCE_TENSOR_ADD, result, addMatmul(all, transposed, rows));
  }

  void addQueryGradient(Tensor &scores, Tensor &transposedK) {
    const std::array<int64_t, 3> &at = op.k;
    Tensor &k = addReshape(
        makeInside(getHeadType(), {op.b, op.g, op.s, op.d}, {at[0], at[1], at[2], 1}), transposedK);
    Tensor &result = makeHeads(A::Dq);
    if (!problem.addsUpQueries) {
      addMatmul(result, scores, k);
      return;
    }
    Tensor &sums = makeTensor(kQuerySumsId, Dtype::F32, {op.b, op.h, op.t, op.d});
    addPointwise(CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, result, addMatmul(sums, scores, k));
  }

  void addGradients() {
    Tensor &q = makeHeads(A::Q), &transposedK = makeHeads(A::K, true), &dout = makeHeads(A::Dout);
    Tensor &scale = makeNumber(kScaleId), &rowSums = addRowSums(dout);
    Tensor &scores = addScores(q, transposedK, scale);
    Tensor &probabilities =
        addStep(CUDNN_POINTWISE_EXP, addDiagonal(addStep(CUDNN_POINTWISE_SUB, scores, &makeLse())));
    bool drops = op.dropout > 0;
    Tensor *kept = drops ? &makeKept() : nullptr;
    Tensor *keptScale = drops ? &makeNumber(kKeptScaleId) : nullptr;
    addKeyGradient(
        A::Dv, drops ? multiply(multiply(probabilities, *kept), *keptScale) : probabilities, dout);
    Tensor *gradient = &addMatmul(makeScores(), dout, makeHeads(A::V, true));
    if (drops)
      gradient = &multiply(*gradient, *kept);
    gradient = &multiply(addStep(CUDNN_POINTWISE_SUB, *gradient, &rowSums), probabilities);
    if (drops)
      gradient = &multiply(*gradient, *keptScale);
    gradient = &multiply(*gradient, scale);
    addKeyGradient(A::Dk, *gradient, q);
    addQueryGradient(*gradient, transposedK);
  }
};

} // namespace

CudnnGraph makeCompositeAttention(const CudnnTarget &target, const AttentionProblem &problem) {
  return Composite(target, problem).build();
}

} // namespace psrt::cuda
