// Tests which calls the fake cuDNN accepts and refuses. The runtime's convolution tests
// (psrt-device-test-cudnn) check the results.
#include "runtime/testing/test/CudnnFixture.h"

using namespace psrt::cuda;

TEST_F(CudnnTest, computes_the_described_convolution) {
  std::vector<float> x(16), w = {1, 10, 100, 1000};
  for (int i = 0; i < 16; ++i)
    x[size_t(i)] = float(i);
  CUdeviceptr y = allocate(9), work = allocate(4096);
  cudnnBackendDescriptor_t plan = makePlan();
  CUDNN_OK(cudnnApi.execute(
      handle, plan,
      makeFinal(makePack({3, 1, 2}, {y, upload(x, stream), upload(w, stream)}, work))));
  std::vector<float> found = download<float>(y, 9, stream);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      int at = 4 * i + j;
      EXPECT_EQ(float(at + 10 * (at + 1) + 100 * (at + 4) + 1000 * (at + 5)),
                found[size_t(3 * i + j)]);
    }
}

TEST_F(CudnnTest, attributes_have_a_type_a_count_and_a_descriptor) {
  cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE,
            set<float>(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, {1}));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, setInts(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, {1, 2}));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, setInts(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 2}));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            cudnnApi.setAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, nullptr));
}

TEST_F(CudnnTest, finalize_reports_missing_attributes) {
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, cudnnApi.finalize(make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)));
  EXPECT_NE(std::string::npos, words().find("906")) << words(); // CUDNN_ATTR_TENSOR_UNIQUE_ID
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, cudnnApi.finalize(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)));
}

TEST_F(CudnnTest, attributes_are_set_before_finalize_and_used_after) {
  cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
            setChild(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, makeTensor(1, 4)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, setChild(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                             makeFinal(makeWindows())));
  EXPECT_NE(CUDNN_STATUS_SUCCESS,
            setInts(makeFinal(makeTensor(1, 4)), CUDNN_ATTR_TENSOR_UNIQUE_ID, {2}));
}

TEST_F(CudnnTest, tensors_and_windows_must_match) {
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, cudnnApi.finalize(makeTensor(1, 4, 2)))
      << "aligned to less than an element";
  cudnnBackendDescriptor_t tensor = makeTensor(1, 4);
  setInts(tensor, CUDNN_ATTR_TENSOR_STRIDES, {16, 4, 1});
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, cudnnApi.finalize(tensor));
  cudnnBackendDescriptor_t windows = makeWindows();
  setInts(windows, CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1, 1});
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, cudnnApi.finalize(windows));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, cudnnApi.finalize(makeOperation(4)));
}

TEST_F(CudnnTest, an_execution_needs_each_address_aligned_and_a_workspace) {
  CUdeviceptr data = allocate(64), work = allocate(4096);
  cudnnBackendDescriptor_t plan = makePlan();
  auto execute = [&](cudnnBackendDescriptor_t pack) {
    return cudnnApi.execute(handle, plan, makeFinal(pack));
  };
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, execute(makePack({1, 2}, {data, data + 64}, work)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM,
            execute(makePack({1, 2, 4}, {data, data + 64, data + 128}, work)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
            execute(makePack({1, 2, 3}, {data, data + 64, data + 132}, work)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            execute(makePack({1, 2, 3}, {data, data + 64, data + 128}, 0)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
            cudnnApi.finalize(makePack({1, 1, 3}, {data, data + 64, data + 128}, work)));
  EXPECT_EQ(
      CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
      cudnnApi.execute(handle, plan, makePack({1, 2, 3}, {data, data + 64, data + 128}, work)));
}
