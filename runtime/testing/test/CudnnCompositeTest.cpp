// Tests which composite attention graphs the fake cuDNN accepts. The runtime's attention tests
// (psrt-device-test-cudnn) check the results.
#include "runtime/testing/test/CudnnFixture.h"

using namespace psrt::cuda;

namespace {

/// Builds softmax(q k^T scale) v of one head, with four queries and keys of eight elements.
class CompositeTest : public CudnnTest {
protected:
  using Tensor = cudnnBackendDescriptor_t;
  enum class Storage { Memory, Virtual, Host };

  Tensor tensor(std::vector<int64_t> sizes, cudnnDataType_t type,
                Storage storage = Storage::Virtual, bool isTransposed = false) {
    Tensor d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t rows = sizes[2], columns = sizes[3];
    std::vector<int64_t> strides = {rows * columns, rows * columns, columns, 1};
    if (isTransposed)
      strides = {rows * columns, rows * columns, 1, rows};
    setInts(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, {++lastId});
    setInts(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {16});
    setInts(d, CUDNN_ATTR_TENSOR_DIMENSIONS, std::move(sizes));
    setInts(d, CUDNN_ATTR_TENSOR_STRIDES, std::move(strides));
    set<cudnnDataType_t>(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {type});
    if (storage != Storage::Memory)
      set<char>(d,
                storage == Storage::Virtual ? CUDNN_ATTR_TENSOR_IS_VIRTUAL
                                            : CUDNN_ATTR_TENSOR_IS_BY_VALUE,
                CUDNN_TYPE_BOOLEAN, {1});
    return makeFinal(d);
  }
  Tensor scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) { return tensor({1, 1, 4, 4}, type); }
  Tensor rows(Storage storage = Storage::Virtual) {
    return tensor({1, 1, 4, 1}, CUDNN_DATA_FLOAT, storage);
  }
  Tensor heads() { return tensor({1, 1, 4, 8}, CUDNN_DATA_BFLOAT16, Storage::Memory); }

  Tensor addPointwise(cudnnPointwiseMode_t mode, Tensor y, Tensor x, Tensor b = nullptr) {
    cudnnBackendDescriptor_t kind = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set<cudnnPointwiseMode_t>(kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, {mode});
    set<cudnnDataType_t>(kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    setChild(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, makeFinal(kind));
    setChild(d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    setChild(d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b)
      setChild(d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    operations.push_back(makeFinal(d));
    return y;
  }
  Tensor multiply(Tensor c, Tensor a, Tensor b) {
    cudnnBackendDescriptor_t kind = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set<cudnnDataType_t>(kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    setChild(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, makeFinal(kind));
    setChild(d, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    setChild(d, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    setChild(d, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    operations.push_back(makeFinal(d));
    return c;
  }
  Tensor reduce(cudnnReduceTensorOp_t how, Tensor y, Tensor x) {
    cudnnBackendDescriptor_t kind = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set<cudnnDataType_t>(kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
    set<cudnnReduceTensorOp_t>(kind, CUDNN_ATTR_REDUCTION_OPERATOR,
                               CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, {how});
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    setChild(d, CUDNN_ATTR_OPERATION_REDUCTION_DESC, makeFinal(kind));
    setChild(d, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    setChild(d, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    operations.push_back(makeFinal(d));
    return y;
  }

  /// Adds all operations of attention. Probabilities have type `probabilityType`; the dropout mask
  /// has type `keptType`, or does not exist if -1.
  void addAttention(cudnnDataType_t probabilityType = CUDNN_DATA_BFLOAT16, int keptType = -1) {
    operations.clear();
    Tensor number = tensor({1, 1, 1, 1}, CUDNN_DATA_FLOAT, Storage::Host);
    Tensor transposedK =
        tensor({1, 1, 8, 4}, CUDNN_DATA_BFLOAT16, Storage::Memory, /*isTransposed=*/true);
    Tensor s = addPointwise(CUDNN_POINTWISE_MUL, scores(), multiply(scores(), heads(), transposedK),
                            number);
    Tensor most = reduce(CUDNN_REDUCE_TENSOR_MAX, rows(), s);
    Tensor powers = addPointwise(CUDNN_POINTWISE_EXP, scores(),
                                 addPointwise(CUDNN_POINTWISE_SUB, scores(), s, most));
    Tensor sum = reduce(CUDNN_REDUCE_TENSOR_ADD, rows(), powers);
    addPointwise(CUDNN_POINTWISE_ADD, rows(Storage::Memory), most,
                 addPointwise(CUDNN_POINTWISE_LOG, rows(), sum));
    Tensor p = addPointwise(CUDNN_POINTWISE_DIV,
                            scores(keptType < 0 ? probabilityType : CUDNN_DATA_FLOAT), powers, sum);
    if (keptType >= 0) {
      p = addPointwise(CUDNN_POINTWISE_MUL, scores(), p,
                       tensor({1, 1, 1, 1}, CUDNN_DATA_FLOAT, Storage::Host));
      p = addPointwise(CUDNN_POINTWISE_MUL, scores(probabilityType), p,
                       tensor({1, 1, 4, 4}, cudnnDataType_t(keptType), Storage::Memory));
    }
    multiply(heads(), p, heads());
  }

  cudnnStatus_t makeGraph() {
    cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set<cudnnHandle_t>(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle});
    set(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
    return cudnnApi.finalize(graph);
  }

  std::vector<cudnnBackendDescriptor_t> operations;
  int64_t lastId = 0;
};

} // namespace

TEST_F(CompositeTest, attention_is_recognized) {
  addAttention();
  CUDNN_OK(makeGraph()) << words();
  addAttention(CUDNN_DATA_BFLOAT16, CUDNN_DATA_BFLOAT16);
  CUDNN_OK(makeGraph()) << words();
}

TEST_F(CompositeTest, operands_of_matmuls_have_the_type_of_the_heads) {
  addAttention(CUDNN_DATA_FLOAT);
  EXPECT_EQ(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, makeGraph());
  EXPECT_NE(std::string::npos, words().find("type of the heads")) << words();
}

TEST_F(CompositeTest, boolean_dropout_masks_are_refused) {
  addAttention(CUDNN_DATA_BFLOAT16, CUDNN_DATA_BOOLEAN); // cuDNN 9.19 crashes on such a mask
  EXPECT_EQ(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, makeGraph());
}

TEST_F(CompositeTest, graphs_with_a_missing_or_extra_operation_are_refused) {
  for (size_t missing = 0; missing < 10; ++missing) {
    addAttention();
    operations.erase(operations.begin() + long(missing));
    EXPECT_EQ(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, makeGraph()) << missing;
  }
  addAttention();
  addPointwise(CUDNN_POINTWISE_EXP, rows(), rows());
  EXPECT_EQ(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, makeGraph());
}
