// Tests modules, kernels and the synchronization of a block's threads.
#include "runtime/testing/test/FakeFixture.h"
#include <numeric>

using namespace psrt::cuda;

TEST_F(FakeTest, a_block_sums_by_shuffles_and_barriers) {
  CUstream stream = newStream();
  std::vector<int> values(3 * 1000);
  std::iota(values.begin(), values.end(), 1);
  CUdeviceptr from = upload(values, stream), to = allocate<int>(3);
  OK(launch(kernel("sum"), 3, 256, stream, from, to, int64_t(1000)));
  EXPECT_EQ((std::vector<int>{500500, 1500500, 2500500}), download<int>(to, 3, stream));
}

TEST_F(FakeTest, shared_memory_belongs_to_the_block) {
  CUstream stream = newStream();
  CUdeviceptr values = upload(std::vector<int>{1, 2, 3, 4, 5, 6}, stream);
  shared = 3 * sizeof(int);
  OK(launch(kernel("reverse"), 2, 3, stream, values));
  EXPECT_EQ((std::vector<int>{3, 2, 1, 6, 5, 4}), download<int>(values, 6, stream));
}

TEST_F(FakeTest, shuffles_with_missing_lanes_return_the_own_value) {
  CUstream stream = newStream();
  CUdeviceptr values = allocate<int>(35);
  OK(launch(kernel("exchange"), 1, 35, stream, values, 2));
  std::vector<int> read = download<int>(values, 35, stream);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(i ^ 2, read[size_t(i)]);
  EXPECT_EQ((std::vector<int>{34, 33, 32}), (std::vector<int>{read[32], read[33], read[34]}));
}

TEST_F(FakeTest, parameters_are_copied_at_the_launch) {
  struct Scale {
    CUdeviceptr to;
    int factor;
    int64_t n;
  };
  CUstream stream = newStream();
  Gate gate;
  CUdeviceptr values = upload(std::vector<int>{1, 2, 3}, stream);
  Scale scale{values, 5, 3};
  void *parameters[] = {&scale};
  OK(cu.launchHostFunc(stream, Gate::pass, &gate));
  OK(cu.launchKernel(kernel("scale"), 1, 1, 1, 2, 1, 1, 0, stream, parameters, nullptr));
  scale = {};
  gate.open();
  EXPECT_EQ((std::vector<int>{5, 10, 15}), download<int>(values, 3, stream));
}

TEST_F(FakeTest, each_load_of_an_image_is_a_copy) {
  CUstream stream = newStream();
  CUdeviceptr value = allocate<int>(1);
  CUfunction first = kernel("counted"), second = kernel("counted");
  OK(launch(first, 1, 1, stream, value));
  OK(launch(first, 1, 1, stream, value));
  EXPECT_EQ(2, download<int>(value, 1, stream)[0]);
  OK(launch(second, 1, 1, stream, value));
  EXPECT_EQ(1, download<int>(value, 1, stream)[0]);
}

TEST_F(FakeTest, modules_may_be_unloaded_while_their_kernels_wait) {
  CUstream stream = newStream();
  std::string image = readImage();
  CUmodule module;
  CUfunction fill;
  Gate gate;
  CUdeviceptr values = allocate<int>(1);
  OK(cu.moduleLoadDataEx(&module, image.data(), 0, nullptr, nullptr));
  OK(cu.moduleGetFunction(&fill, module, "fill"));
  OK(cu.launchHostFunc(stream, Gate::pass, &gate));
  OK(launch(fill, 1, 1, stream, values, 9, int64_t(1)));
  OK(cu.moduleUnload(module));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, launch(fill, 1, 1, stream, values, 9, int64_t(1)));
  gate.open();
  EXPECT_EQ(9, download<int>(values, 1, stream)[0]);
}

/// Launches a kernel whose threads deadlock, and checks the reported reason.
#define EXPECT_DEADLOCK(name, block, text)                                                         \
  do {                                                                                             \
    CUstream stream = newStream();                                                                 \
    testing::internal::CaptureStderr();                                                            \
    OK(launch(kernel(name), 2, block, stream));                                                    \
    EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(stream));                             \
    EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(stream)); /* still failed */          \
    std::string messages = testing::internal::GetCapturedStderr();                                 \
    EXPECT_NE(std::string::npos, messages.find(text)) << messages;                                 \
  } while (false)

TEST_F(FakeTest, a_barrier_that_a_thread_does_not_reach) {
  EXPECT_DEADLOCK("endEarly", 64,
                  "kernel 'endEarly', block 1: thread 0 waits at a barrier that thread 3 does not "
                  "reach, because it has ended");
}

TEST_F(FakeTest, a_barrier_and_a_shuffle_do_not_meet) {
  EXPECT_DEADLOCK("mixedMeetings", 32,
                  "thread 0 waits at a barrier that thread 16 does not reach, "
                  "because it waits at a shuffle");
}

TEST_F(FakeTest, lanes_of_a_warp_shuffle_with_the_same_mask) {
  EXPECT_DEADLOCK("mixedMasks", 8, "shuffle with different masks");
}

TEST_F(FakeTest, a_new_context_forgets_the_failure) {
  CUstream stream = newStream();
  OK(launch(kernel("endEarly"), 2, 64, stream));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(stream));
  start({});
  stream = newStream();
  CUdeviceptr to = allocate<int>(1);
  OK(launch(kernel("sum"), 1, 64, stream, upload(std::vector<int>(64, 1), stream), to,
            int64_t(64)));
  EXPECT_EQ(64, download<int>(to, 1, stream)[0]);
}

TEST_F(FakeTest, bad_launches_are_errors) {
  CUstream stream = newStream();
  CUfunction fill = kernel("fill"), none = nullptr;
  CUdeviceptr to = allocate<int>(1);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(fill, 0, 1, stream, to, 1, int64_t(1)));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(fill, 1, 1025, stream, to, 1, int64_t(1)));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, launch(none, 1, 1, stream, to, 1, int64_t(1)));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(fill, 1, 1, stream, to)); // too few parameters
  shared = 48 * 1024 + 1;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, launch(fill, 1, 1, stream, to, 1, int64_t(1)));
  OK(cu.funcSetAttribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, int(shared)));
  EXPECT_EQ(CUDA_SUCCESS, launch(fill, 1, 1, stream, to, 1, int64_t(1)));
  OK(cu.streamSynchronize(stream));
}

TEST_F(FakeTest, functions_must_exist) {
  std::string image = readImage();
  CUmodule module;
  CUfunction function;
  OK(cu.moduleLoadDataEx(&module, image.data(), 0, nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cu.moduleGetFunction(&function, module, "nothing"));
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cu.moduleGetFunction(&function, module, "undescribed"));
}

TEST_F(FakeTest, ptx_loads_and_does_not_run) {
  const char *ptx = "// made by hand\n.version 8.0\n.target sm_80\n.visible .entry gelu(\n)\n{}\n";
  CUmodule module;
  CUfunction function;
  CUstream stream = newStream();
  OK(cu.moduleLoadDataEx(&module, ptx, 0, nullptr, nullptr));
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cu.moduleGetFunction(&function, module, "gel"));
  OK(cu.moduleGetFunction(&function, module, "gelu"));
  OK(launch(function, 1, 1, stream));
  EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU, cu.streamSynchronize(stream));
}

/// Loads an image; returns the result and the error log.
static std::pair<CUresult, std::string> load(const Driver &cu, const char *image) {
  char log[256] = "untouched";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  CUmodule module;
  CUresult result = cu.moduleLoadDataEx(&module, image, 2, options, values);
  EXPECT_EQ(std::string(log).size(), reinterpret_cast<size_t>(values[1]));
  return {result, log};
}

TEST_F(FakeTest, images_that_do_not_load_say_why) {
  auto expect = [](CUresult result, const char *text, const std::pair<CUresult, std::string> &got) {
    EXPECT_EQ(result, got.first);
    EXPECT_NE(std::string::npos, got.second.find(text)) << got.second;
  };
  expect(CUDA_ERROR_INVALID_IMAGE, "neither an ELF file nor PTX", load(cu, "gelu"));
  expect(CUDA_ERROR_INVALID_PTX, "Missing .version", load(cu, "// nothing\n"));
  expect(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "Unsupported .version 9.9",
         load(cu, ".version 9.9\n.target sm_90\n"));
  expect(CUDA_ERROR_NO_BINARY_FOR_GPU, "sm_100", load(cu, ".version 8.6\n.target sm_100\n"));
  expect(CUDA_SUCCESS, "", load(cu, ".version 8.0\n.target sm_90\n"));
}
