// Tests that the real cuDNN accepts our graphs: cuDNN creates plans for GPUs that are not
// installed, from the properties of these GPUs. PSRT_TEST_CUDNN names the library; without it, the
// tests are skipped.
#include "runtime/core/Status.h"
#include "runtime/device/cuda/cudnn/AttentionGraph.h"
#include "runtime/device/cuda/cudnn/ConvolutionGraph.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>

using namespace psrt;
using namespace psrt::cuda;

namespace {

struct GpuKind {
  const char *name;
  int architecture, processors, sharedMemory;
};
constexpr GpuKind kGpus[] = {{"NVIDIA A100-SXM4-80GB", 800, 108, 166912},
                             {"NVIDIA H100 80GB HBM3", 900, 132, 232448},
                             {"NVIDIA B200", 1000, 148, 232448}};

/// Returns the properties of a GPU that cuDNN queries, as JSON.
std::string describe(const GpuKind &gpu) {
  return format(
      R"({"deviceName": "%s", "deviceVer": %d, "multiProcessorCount": %d,
  "maxSharedMemoryPerBlockOptin": %d, "maxSharedMemoryPerBlock": 49152,
  "reservedSharedMemoryPerBlock": 1024, "oversizedSharedMemoryPerBlock": 0,
  "maxGridSize": [2147483647, 65535, 65535], "maxThreadsDim": [1024, 1024, 64],
  "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "warpSize": 32, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "pciDeviceId": 9008, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 85000000000,
  "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "memoryBusWidth": 5120,
  "l2CacheSize": 52428800, "cudaDeviceId": 0, "driverVer": 12080})",
      gpu.name, gpu.architecture, gpu.processors, gpu.sharedMemory);
}

class CudnnPlans : public testing::TestWithParam<GpuKind> {
protected:
  void SetUp() override {
    const char *path = std::getenv("PSRT_TEST_CUDNN");
    if (!path)
      GTEST_SKIP() << "PSRT_TEST_CUDNN is not set to the path of libcudnn.so.9";
    ASSERT_TRUE(dlopen(PSRT_IDLE_DRIVER, RTLD_NOW | RTLD_GLOBAL)) << dlerror();
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_TRUE(handle) << dlerror();
#define PSRT_LOAD(name, symbol, result, arguments)                                                 \
  library.name = reinterpret_cast<result(*) arguments>(dlsym(handle, #symbol));
    PSRT_CUDNN_FUNCTIONS(PSRT_LOAD)
#undef PSRT_LOAD
    library.version = library.getVersion();
    properties.emplace(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    properties->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, describe(GetParam()))
        .finalize("properties");
  }
  CudnnTarget target() { return {library, nullptr, &*properties}; }

  /// Creates a plan. Returns the reason for a failure, or an empty string.
  std::string tryAttention(const AttentionProblem &problem) {
    if (!hasAttentionGraph(problem))
      return "it has no graph";
    try {
      (void)CudnnPlan(target(), makeAttentionGraph(target(), problem), problem.op.dtype,
                      getMostWorkspace(problem));
      return "";
    } catch (const CudnnFailure &failure) {
      return failure.what();
    }
  }

  /// Expects that cuDNN has a plan for the forward pass and for the gradient of each problem.
  void expectPlans(const std::vector<AttentionProblem> &problems) {
    for (AttentionProblem problem : problems)
      for (bool isGradient : {false, true}) {
        problem.op.grad = isGradient;
        EXPECT_EQ("", tryAttention(problem)) << describeAttention(problem);
      }
  }

  Cudnn library;
  std::optional<Descriptor> properties;
};

/// Returns an attention problem whose heads are adjacent within a row, as matmuls write them.
AttentionProblem makeAttention(Dtype dtype, int64_t heads, int64_t groups, int64_t length,
                               int64_t width) {
  AttentionProblem problem;
  AttentionOp &op = problem.op;
  op.dtype = dtype;
  op.b = 4, op.h = heads, op.g = groups, op.t = op.s = length, op.d = width;
  op.q = op.out = op.dout = op.dq = {length * heads * width, width, heads * width};
  op.k = op.v = op.dk = op.dv = {length * groups * width, width, groups * width};
  op.causal = true;
  return problem;
}

/// Returns attention problems of real models; the first two are those of GPT-2 and Llama.
std::vector<AttentionProblem> makeProblems() {
  AttentionProblem gpt = makeAttention(Dtype::BF16, 12, 12, 1024, 64);
  AttentionProblem llama = makeAttention(Dtype::BF16, 32, 8, 1024, 128);
  AttentionProblem half = makeAttention(Dtype::F16, 12, 12, 1024, 64);
  AttentionProblem encoder = gpt, window = gpt, padded = gpt, biased = gpt, masked = gpt;
  encoder.op.causal = false;
  window.op.window = 256;
  padded.hasPadding = true;
  biased.hasMask = masked.hasMask = true;
  biased.op.maskDtype = Dtype::BF16;
  biased.op.mask = masked.op.mask = {0, 0, 1024, 1};
  return {gpt, llama, half, encoder, window, padded, biased, masked};
}

} // namespace

TEST_P(CudnnPlans, UnifiedAttention) {
  if (library.version < 92100)
    GTEST_SKIP() << "not supported by cuDNN " << library.version;
  expectPlans(makeProblems());
}

TEST_P(CudnnPlans, CompositeAttention) {
  if (library.version < 91002)
    GTEST_SKIP() << "not supported by cuDNN " << library.version;
  std::vector<AttentionProblem> problems = makeProblems();
  for (AttentionProblem &problem : problems)
    problem.form = AttentionForm::Composite;
  expectPlans(problems);
  problems = {problems[0], problems[1]};
  for (AttentionProblem &problem : problems)
    problem.addsUpQueries = true;
  expectPlans(problems);
}

TEST_P(CudnnPlans, Dropout) {
  if (library.version < 91002)
    GTEST_SKIP() << "not supported by cuDNN " << library.version;
  std::vector<AttentionProblem> all = makeProblems(), problems = {all[0], all[1], all[5]};
  for (AttentionProblem &problem : problems) {
    problem.op.dropout = 0.1f;
    problem.form = chooseForm(library.version, problem.op);
    EXPECT_TRUE(problem.isComposite());
  }
  expectPlans(problems);
}

TEST_P(CudnnPlans, OtherLengths) {
  if (library.version < 91002)
    GTEST_SKIP() << "not supported by cuDNN " << library.version;
  AttentionProblem problem = makeAttention(Dtype::BF16, 12, 12, 77, 64);
  problem.form = AttentionForm::Composite;
  EXPECT_EQ("", tryAttention(problem));
  problem.op.grad = true;
  std::string reason = tryAttention(problem);
  if (library.version < 91600)
    EXPECT_NE(reason.find("not a multiple of 128 needs 9.16.0"), std::string::npos) << reason;
  else
    EXPECT_EQ("", reason);
}

TEST_P(CudnnPlans, Convolutions) {
  bool isNew = GetParam().architecture >= 1000; // some older versions crash on such GPUs
  if (library.version < (isNew ? 92000 : 90800))
    GTEST_SKIP() << "not supported by cuDNN " << library.version;
  ConvolutionOp op;
  op.batch = 8, op.inChannels = 64, op.outChannels = 128;
  op.windows.in = {1, 32, 32}, op.windows.out = {1, 16, 16}, op.windows.kernel = {1, 3, 3};
  op.windows.strides = {1, 2, 2}, op.windows.low = {0, 1, 1};
  for (Dtype dtype : {Dtype::F32, Dtype::BF16, Dtype::F16})
    for (int result : {ConvolutionOp::X, ConvolutionOp::W, ConvolutionOp::Y}) {
      op.dtype = op.outDtype = dtype, op.result = result;
      ASSERT_TRUE(hasConvolutionGraph(op));
      EXPECT_NO_THROW(
          CudnnPlan(target(), makeConvolutionGraph(target(), op), dtype, int64_t(256) << 20))
          << describeConvolution(op);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, testing::ValuesIn(kGpus), [](const auto &info) {
  return "sm_" + std::to_string(info.param.architecture / 10);
});
