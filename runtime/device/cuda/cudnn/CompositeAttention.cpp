// Attention as matmuls, reductions and steps between them, in the order in which cuDNN looks for
// them: what it knows again becomes one kernel, in which nothing of the size of the scores is
// written. Only scores, probabilities in 16 bits and sums in f32 are known.
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
    result.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(kind), "a kind of matmul"))
        .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
        .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
        .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    steps.push_back(&keep(std::move(result), "a matmul of attention"));
    return c;
  }

  Tensor &addReduction(cudnnReduceTensorOp_t how, Tensor &y, Tensor &x) {
    Descriptor kind(target.library, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_REDUCTION_OPERATOR, how);
    Descriptor result(target.library, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    result.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(kind), "a kind of reduction"))
        .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    steps.push_back(&keep(std::move(result), "a reduction of attention"));
    return y;
  }

  Tensor &addReshape(Tensor &y, Tensor &x) {
    Descriptor result(target.library, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    result.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    steps.push_back(&keep(std::move(result), "a turned matrix"));
    return y;
  }

  Tensor &addStep(cudnnPointwiseMode_t mode, Tensor &x, Tensor *b = nullptr) {
    return addPointwise(mode, CUDNN_DATA_FLOAT, makeScores(), x, b);
  }
  Tensor &multiply(Tensor &x, Tensor &by) { return addStep(CUDNN_POINTWISE_MUL, x, &by); }

  //===--- what both have -------------------------------------------------===//

  std::vector<int64_t> getRows() const { return {op.b, op.h, op.t, 1}; }
  Tensor &makeRows() { return makeInside(CUDNN_DATA_FLOAT, getRows()); }
  Tensor &makeLse() { return makeTensor(A::Lse + 1, Dtype::F32, getRows()); }
  Tensor &makeKept() { return makeTensor(kKeptId, op.dtype, {op.b, op.h, op.t, op.s}); }

  /// The scaled scores, and what masks and padding are.
  Tensor &addScores(Tensor &q, Tensor &turnedK, Tensor &scale) {
    Tensor &scores = multiply(addMatmul(makeScores(), q, turnedK), scale);
    return problem.hasBias() ? addBias(scores) : scores;
  }
  Tensor &addDiagonal(Tensor &scores) {
    return AttentionSteps::addDiagonal(scores, CUDNN_DATA_FLOAT);
  }

  //===--- the value ------------------------------------------------------===//

  void addValue() {
    Tensor &scores =
        addDiagonal(addScores(makeHeads(A::Q), makeHeads(A::K, true), makeNumber(kScaleId)));
    Tensor &most = addReduction(CUDNN_REDUCE_TENSOR_MAX, makeRows(), scores);
    Tensor &parts = addStep(CUDNN_POINTWISE_EXP, addStep(CUDNN_POINTWISE_SUB, scores, &most));
    Tensor &sum = addReduction(CUDNN_REDUCE_TENSOR_ADD, makeRows(), parts);
    Tensor &log = addPointwise(CUDNN_POINTWISE_LOG, CUDNN_DATA_FLOAT, makeRows(), sum);
    addPointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, makeLse(), most, &log);
    bool drops = op.dropout > 0;
    Tensor *chances =
        &addPointwise(CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT,
                      makeScores(drops ? CUDNN_DATA_FLOAT : getHeadType()), parts, &sum);
    if (drops)
      chances = &addPointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, makeScores(getHeadType()),
                              multiply(*chances, makeNumber(kKeptScaleId)), &makeKept());
    addMatmul(makeHeads(A::Out), *chances, makeHeads(A::V));
  }

  //===--- gradients ------------------------------------------------------===//

  /// Of each row the sum of dout times out, for probabilities before dropout: in memory, as the
  /// kernel that reads it is another one.
  Tensor &addRowSums(Tensor &dout) {
    Tensor &matmuls =
        makeInside(CUDNN_DATA_FLOAT, {op.b, op.h, op.t, op.d},
                   {op.h * op.t * op.d, op.t * op.d, op.h * op.d, 1}); // as cuDNN looks for it
    addPointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, matmuls, dout, &makeHeads(A::Out));
    Tensor &sums = addReduction(CUDNN_REDUCE_TENSOR_ADD, makeRows(), matmuls);
    return addPointwise(CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT,
                        makeTensor(kRowSumsId, Dtype::F32, getRows()), sums,
                        &makeNumber(kKeptPartId));
  }

  /// The matmul of turned scores and rows of queries, over all query heads of a key head.
  void addKeyGradient(int buffer, Tensor &scores, Tensor &rows) {
    Tensor &turned = addReshape(makeInside(getHeadType(), {op.b, op.h, op.s, op.t},
                                           {op.h * op.t * op.s, op.t * op.s, 1, op.s}),
                                scores);
    Tensor &result = makeHeads(buffer);
    if (op.g == op.h) {
      addMatmul(result, turned, rows);
      return;
    }
    Tensor &all = makeInside(getHeadType(), {op.b, op.h, op.s, op.d});
    addReduction(CUDNN_REDUCE_TENSOR_ADD, result, addMatmul(all, turned, rows));
  }

  void addQueryGradient(Tensor &scores, Tensor &turnedK) {
    const std::array<int64_t, 3> &at = op.k;
    Tensor &k = addReshape(
        makeInside(getHeadType(), {op.b, op.g, op.s, op.d}, {at[0], at[1], at[2], 1}), turnedK);
    Tensor &result = makeHeads(A::Dq);
    if (!problem.addsUpQueries) {
      addMatmul(result, scores, k);
      return;
    }
    Tensor &sums = makeTensor(kQuerySumsId, Dtype::F32, {op.b, op.h, op.t, op.d});
    addPointwise(CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, result, addMatmul(sums, scores, k));
  }

  void addGradients() {
    Tensor &q = makeHeads(A::Q), &turnedK = makeHeads(A::K, true), &dout = makeHeads(A::Dout);
    Tensor &scale = makeNumber(kScaleId), &rowSums = addRowSums(dout);
    Tensor &scores = addScores(q, turnedK, scale);
    Tensor &chances =
        addStep(CUDNN_POINTWISE_EXP, addDiagonal(addStep(CUDNN_POINTWISE_SUB, scores, &makeLse())));
    bool drops = op.dropout > 0;
    Tensor *kept = drops ? &makeKept() : nullptr;
    Tensor *keptScale = drops ? &makeNumber(kKeptScaleId) : nullptr;
    addKeyGradient(A::Dv, drops ? multiply(multiply(chances, *kept), *keptScale) : chances, dout);
    Tensor *change = &addMatmul(makeScores(), dout, makeHeads(A::V, true));
    if (drops)
      change = &multiply(*change, *kept);
    change = &multiply(addStep(CUDNN_POINTWISE_SUB, *change, &rowSums), chances);
    if (drops)
      change = &multiply(*change, *keptScale);
    change = &multiply(*change, scale);
    addKeyGradient(A::Dk, *change, q);
    addQueryGradient(*change, turnedK);
  }
};

} // namespace

CudnnGraph makeCompositeAttention(const CudnnTarget &target, const AttentionProblem &problem) {
  return Composite(target, problem).build();
}

} // namespace psrt::cuda
