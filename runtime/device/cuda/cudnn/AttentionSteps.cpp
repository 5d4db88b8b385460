// Implements the operations that both forms of attention share.
#include "runtime/device/cuda/cudnn/AttentionSteps.h"

namespace psrt::cuda {

using A = AttentionOp;

const std::array<int64_t, 3> &getStrides(const AttentionOp &op, int buffer) {
  const std::array<int64_t, 3> *strides[] = {&op.q,    &op.k,  &op.v,  &op.out, nullptr,
                                             &op.dout, &op.dq, &op.dk, &op.dv};
  return *strides[buffer];
}

std::vector<int> getHeads(const AttentionOp &op) {
  if (op.grad)
    return {A::Q, A::K, A::V, A::Out, A::Dout, A::Dq, A::Dk, A::Dv};
  return {A::Q, A::K, A::V, A::Out};
}

AttentionSteps::Tensor &AttentionSteps::makeHeads(int buffer, bool isTransposed) {
  std::array<int64_t, 3> at = getStrides(op, buffer);
  if (buffer == A::Dout && problem.scalesDout()) // the graph reads the scaled copy, which is dense
    at = {op.h * op.t * op.d, op.t * op.d, op.d};
  bool isOfKeys = buffer == A::K || buffer == A::V || buffer == A::Dk || buffer == A::Dv;
  std::vector<int64_t> sizes = {op.b, isOfKeys ? op.g : op.h, isOfKeys ? op.s : op.t, op.d};
  std::vector<int64_t> strides = {at[0], at[1], at[2], 1};
  for (size_t dim = 3; dim-- > 0;)
    if (sizes[dim] == 1) // the stride of a dim of size 1 may be 0, which cuDNN rejects
      strides[dim] = sizes[dim + 1] * strides[dim + 1];
  if (isTransposed) {
    std::swap(sizes[2], sizes[3]);
    std::swap(strides[2], strides[3]);
  }
  return keep(describeTensor(target.library, buffer + 1, op.dtype, sizes, strides), "heads");
}

AttentionSteps::Tensor &AttentionSteps::makeTensor(int64_t id, Dtype dtype,
                                                   const std::vector<int64_t> &sizes) {
  return keep(describeTensor(target.library, id, dtype, sizes), "a tensor");
}

AttentionSteps::Tensor &AttentionSteps::makeNumber(int64_t id, cudnnDataType_t type) {
  Descriptor result = describeTensor(target.library, id, Dtype::F32, {1, 1, 1, 1});
  result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type).set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  return keep(std::move(result), "a scalar");
}

AttentionSteps::Tensor &AttentionSteps::makeInside(cudnnDataType_t type,
                                                   const std::vector<int64_t> &sizes,
                                                   std::vector<int64_t> strides) {
  Descriptor result =
      describeTensor(target.library, ++lastInside, Dtype::F32, sizes, std::move(strides));
  result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type).set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  return keep(std::move(result), "an intermediate tensor");
}

AttentionSteps::Tensor &AttentionSteps::addPointwise(cudnnPointwiseMode_t mode,
                                                     cudnnDataType_t arithmetic, Tensor &y,
                                                     Tensor &x, Tensor *b, Tensor *t,
                                                     int64_t axis) {
  Descriptor function(target.library, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, arithmetic);
  if (axis >= 0)
    function.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  Descriptor result(target.library, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  result
      .set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
           keep(std::move(function), "a pointwise operator"))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  if (b)
    result.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  if (t)
    result.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
  steps.push_back(&keep(std::move(result), "a pointwise operation of attention"));
  return y;
}

AttentionSteps::Tensor &AttentionSteps::addBias(Tensor &scores) {
  std::array<int64_t, 4> sizes = problem.getBiasSizes();
  Tensor &bias = makeTensor(A::Mask + 1, Dtype::F32, {sizes.begin(), sizes.end()});
  return addPointwise(CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, makeScores(), scores, &bias);
}

AttentionSteps::Tensor &AttentionSteps::addIndex(Tensor &from, int64_t dim) {
  return addPointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, makeScores(CUDNN_DATA_INT32),
                      from, nullptr, nullptr, dim);
}

AttentionSteps::Tensor &AttentionSteps::addSelect(Tensor &scores, cudnnPointwiseMode_t mode,
                                                  Tensor &x, Tensor &b) {
  Tensor &isSeen = addPointwise(mode, CUDNN_DATA_BOOLEAN, makeScores(CUDNN_DATA_BOOLEAN), x, &b);
  return addPointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, makeScores(), scores,
                      &getHidden(), &isSeen);
}

AttentionSteps::Tensor &AttentionSteps::addDiagonal(Tensor &scores, cudnnDataType_t windowType,
                                                    Tensor *from) {
  Tensor *result = &scores;
  if (op.causal) {
    Tensor &at = from ? *from : *result;
    Tensor &i = addIndex(at, 2), &j = addIndex(at, 3);
    result = &addSelect(*result, CUDNN_POINTWISE_CMP_GE, i, j);
  }
  if (op.window > 0) {
    Tensor &at = from ? *from : *result;
    Tensor &i = addIndex(at, 2), &j = addIndex(at, 3);
    Tensor &end = addPointwise(CUDNN_POINTWISE_ADD, windowType, makeScores(windowType), j,
                               &makeNumber(kWindowId, windowType));
    result = &addSelect(*result, CUDNN_POINTWISE_CMP_GT, end, i);
  }
  return *result;
}

} // namespace psrt::cuda
