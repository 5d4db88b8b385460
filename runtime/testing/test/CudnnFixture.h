// Defines the functions of the fake cuDNN, and descriptors of a small convolution.
#ifndef PSRT_TESTING_TEST_CUDNNFIXTURE_H
#define PSRT_TESTING_TEST_CUDNNFIXTURE_H

#include "runtime/device/cuda/cudnn/CudnnApi.h"
#include "runtime/testing/test/FakeFixture.h"

namespace psrt::cuda {

/// The functions of the library, loaded from its path.
struct CudnnLibrary {
  void *library = dlopen(PSRT_FAKE_CUDNN, RTLD_NOW | RTLD_LOCAL);
#define PSRT_MEMBER(name, symbol, result, arguments)                                               \
  result(*name) arguments = reinterpret_cast<result(*) arguments>(dlsym(library, #symbol));
  PSRT_CUDNN_FUNCTIONS(PSRT_MEMBER)
#undef PSRT_MEMBER
};

#define CUDNN_OK(call) ASSERT_EQ(CUDNN_STATUS_SUCCESS, call)

/// Computes a convolution: x is 1x1x4x4, w is 1x1x2x2, y is 1x1x3x3, all f32.
class CudnnTest : public FakeTest {
protected:
  void SetUp() override {
    FakeTest::SetUp();
    stream = newStream();
    CUDNN_OK(cudnnApi.create(&handle));
    CUDNN_OK(cudnnApi.setStream(handle, stream));
  }

  void TearDown() override {
    CUDNN_OK(cudnnApi.destroy(handle));
    FakeTest::TearDown();
  }

  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    EXPECT_EQ(CUDNN_STATUS_SUCCESS, cudnnApi.createDescriptor(type, &made));
    return made;
  }

  template <typename T>
  cudnnStatus_t set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, std::vector<T> values) {
    return cudnnApi.setAttribute(to, name, type, int64_t(values.size()), values.data());
  }
  cudnnStatus_t setInts(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                        std::vector<int64_t> values) {
    return set(to, name, CUDNN_TYPE_INT64, std::move(values));
  }
  cudnnStatus_t setChild(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                         cudnnBackendDescriptor_t child) {
    return set<cudnnBackendDescriptor_t>(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, {child});
  }

  cudnnBackendDescriptor_t makeTensor(int64_t id, int64_t width, int64_t alignment = 16) {
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    setInts(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, {id});
    setInts(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, {alignment});
    setInts(d, CUDNN_ATTR_TENSOR_DIMENSIONS, {1, 1, width, width});
    setInts(d, CUDNN_ATTR_TENSOR_STRIDES, {width * width, width * width, width, 1});
    set<cudnnDataType_t>(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, {CUDNN_DATA_FLOAT});
    return d;
  }

  cudnnBackendDescriptor_t makeFinal(cudnnBackendDescriptor_t descriptor) {
    EXPECT_EQ(CUDNN_STATUS_SUCCESS, cudnnApi.finalize(descriptor)) << words();
    return descriptor;
  }

  cudnnBackendDescriptor_t makeWindows() {
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set<cudnnDataType_t>(d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                         {CUDNN_DATA_FLOAT});
    set<cudnnConvolutionMode_t>(d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
                                {CUDNN_CROSS_CORRELATION});
    setInts(d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, {2});
    setInts(d, CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1});
    setInts(d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {1, 1});
    setInts(d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {0, 0});
    setInts(d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {0, 0});
    return d;
  }

  /// Returns the operation without finalizing it.
  cudnnBackendDescriptor_t makeOperation(int64_t outWidth = 3) {
    cudnnBackendDescriptor_t d = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set<float>(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, {1});
    set<float>(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, {0});
    setChild(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, makeFinal(makeWindows()));
    setChild(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, makeFinal(makeTensor(1, 4)));
    setChild(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, makeFinal(makeTensor(2, 2)));
    setChild(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, makeFinal(makeTensor(3, outWidth)));
    return d;
  }

  /// Returns a plan with the only engine of the fallback mode.
  cudnnBackendDescriptor_t makePlan() {
    cudnnBackendDescriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set<cudnnHandle_t>(graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle});
    setChild(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, makeFinal(makeOperation()));
    cudnnBackendDescriptor_t heuristic = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    setChild(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, makeFinal(graph));
    set<cudnnBackendHeurMode_t>(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE,
                                {CUDNN_HEUR_MODE_FALLBACK});
    makeFinal(heuristic);
    cudnnBackendDescriptor_t config = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = 0;
    EXPECT_EQ(CUDNN_STATUS_SUCCESS,
              cudnnApi.getAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &config));
    EXPECT_EQ(1, count);
    cudnnBackendDescriptor_t plan = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set<cudnnHandle_t>(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {handle});
    setChild(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    return makeFinal(plan);
  }

  cudnnBackendDescriptor_t makePack(std::vector<int64_t> ids, std::vector<CUdeviceptr> data,
                                    CUdeviceptr workspace) {
    cudnnBackendDescriptor_t pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    setInts(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::move(ids));
    set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::move(data));
    set<CUdeviceptr>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, {workspace});
    return pack;
  }

  std::string words() {
    char text[256] = "";
    cudnnApi.getLastErrorString(text, sizeof(text));
    return text;
  }

  inline static CudnnLibrary cudnnApi;
  CUstream stream = nullptr;
  cudnnHandle_t handle = nullptr;
};

} // namespace psrt::cuda

#endif
