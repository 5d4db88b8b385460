// What the stand-in for cuDNN takes and refuses. That its convolutions are right is shown by the
// runtime's tests of convolutions, which run on it (psrt-device-test-cudnn).
#include "runtime/device/cuda/cudnn/CudnnApi.h"
#include "runtime/device/cuda/standin/test/StandinFixture.h"

using namespace psrt::cuda;

namespace {

/// The functions of the library at a path.
struct Library {
  void *library = dlopen(PSRT_STANDIN_CUDNN, RTLD_NOW | RTLD_LOCAL);
#define PSRT_MEMBER(name, symbol, result, arguments)                                               \
  result(*name) arguments = reinterpret_cast<result(*) arguments>(dlsym(library, #symbol));
  PSRT_CUDNN_FUNCTIONS(PSRT_MEMBER)
#undef PSRT_MEMBER
};

#define DNN_OK(call) ASSERT_EQ(CUDNN_STATUS_SUCCESS, call)

/// y = x correlated with w: x is 1x1x4x4, w 1x1x2x2, y 1x1x3x3, all f32.
class CudnnTest : public StandinTest {
protected:
  void SetUp() override {
    StandinTest::SetUp();
    stream = newStream();
    DNN_OK(dnn.create(&handle));
    DNN_OK(dnn.setStream(handle, stream));
  }

  void TearDown() override {
    DNN_OK(dnn.destroy(handle));
    StandinTest::TearDown();
  }

  cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t made = nullptr;
    EXPECT_EQ(CUDNN_STATUS_SUCCESS, dnn.createDescriptor(type, &made));
    return made;
  }

  template <typename T>
  cudnnStatus_t set(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                    cudnnBackendAttributeType_t type, std::vector<T> values) {
    return dnn.setAttribute(to, name, type, int64_t(values.size()), values.data());
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
    EXPECT_EQ(CUDNN_STATUS_SUCCESS, dnn.finalize(descriptor)) << words();
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

  /// Not finalized.
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

  /// By the one engine of the fallback.
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
              dnn.getAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
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
    dnn.getLastErrorString(text, sizeof(text));
    return text;
  }

  inline static Library dnn;
  CUstream stream = nullptr;
  cudnnHandle_t handle = nullptr;
};

} // namespace

TEST_F(CudnnTest, computes_what_is_described) {
  std::vector<float> x(16), w = {1, 10, 100, 1000};
  for (int i = 0; i < 16; ++i)
    x[size_t(i)] = float(i);
  CUdeviceptr y = allocate(9), work = allocate(4096);
  cudnnBackendDescriptor_t plan = makePlan();
  DNN_OK(
      dnn.execute(handle, plan,
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
            dnn.setAttribute(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, nullptr));
}

TEST_F(CudnnTest, what_is_missing_is_said_when_it_is_finalized) {
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, dnn.finalize(make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)));
  EXPECT_NE(std::string::npos, words().find("906")) << words(); // the id
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, dnn.finalize(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)));
}

TEST_F(CudnnTest, a_descriptor_is_set_before_and_used_after_it_is_finalized) {
  cudnnBackendDescriptor_t operation = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
            setChild(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, makeTensor(1, 4)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, setChild(operation, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                                             makeFinal(makeWindows())));
  EXPECT_NE(CUDNN_STATUS_SUCCESS,
            setInts(makeFinal(makeTensor(1, 4)), CUDNN_ATTR_TENSOR_UNIQUE_ID, {2}));
}

TEST_F(CudnnTest, tensors_and_windows_must_go_together) {
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, dnn.finalize(makeTensor(1, 4, 2)))
      << "aligned to less than an element";
  cudnnBackendDescriptor_t tensor = makeTensor(1, 4);
  setInts(tensor, CUDNN_ATTR_TENSOR_STRIDES, {16, 4, 1});
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, dnn.finalize(tensor));
  cudnnBackendDescriptor_t windows = makeWindows();
  setInts(windows, CUDNN_ATTR_CONVOLUTION_DILATIONS, {1, 1, 1});
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, dnn.finalize(windows));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, dnn.finalize(makeOperation(4)));
}

TEST_F(CudnnTest, an_execution_needs_each_address_aligned_and_a_workspace) {
  CUdeviceptr data = allocate(64), work = allocate(4096);
  cudnnBackendDescriptor_t plan = makePlan();
  auto execute = [&](cudnnBackendDescriptor_t pack) {
    return dnn.execute(handle, plan, makeFinal(pack));
  };
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM, execute(makePack({1, 2}, {data, data + 64}, work)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM,
            execute(makePack({1, 2, 4}, {data, data + 64, data + 128}, work)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
            execute(makePack({1, 2, 3}, {data, data + 64, data + 132}, work)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_NULL_POINTER,
            execute(makePack({1, 2, 3}, {data, data + 64, data + 128}, 0)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
            dnn.finalize(makePack({1, 1, 3}, {data, data + 64, data + 128}, work)));
  EXPECT_EQ(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
            dnn.execute(handle, plan, makePack({1, 2, 3}, {data, data + 64, data + 128}, work)));
}
