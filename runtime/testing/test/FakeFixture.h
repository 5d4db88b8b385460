// Defines a fixture that loads the fake driver as the runtime loads a driver, with a new context
// for each test.
#ifndef PSRT_TESTING_TEST_FAKEFIXTURE_H
#define PSRT_TESTING_TEST_FAKEFIXTURE_H

#include "runtime/testing/driver/Fake.h"
#include <condition_variable>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

namespace psrt::cuda {

/// The functions of the library at `path`.
struct Driver {
  void *library = nullptr;
#define PSRT_DRIVER_MEMBER(name, symbol, arguments) CUresult(*name) arguments = nullptr;
  PSRT_CUDA_FUNCTIONS(PSRT_DRIVER_MEMBER)
#undef PSRT_DRIVER_MEMBER
  decltype(&psrt_fake_access) access = nullptr;
  decltype(&psrt_fake_enqueue) enqueue = nullptr;
  decltype(&psrt_fake_release) release = nullptr;
  decltype(&psrt_fake_acquire) acquire = nullptr;
  decltype(&psrt_fake_waits) waits = nullptr;

  template <typename Function> void find(Function &function, const char *symbol) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
    EXPECT_NE(function, nullptr) << symbol;
  }

  explicit Driver(const char *path) : library(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(library, nullptr) << dlerror();
#define PSRT_DRIVER_FIND(name, symbol, arguments) find(name, #symbol);
    PSRT_CUDA_FUNCTIONS(PSRT_DRIVER_FIND)
#undef PSRT_DRIVER_FIND
    find(access, "psrt_fake_access");
    find(enqueue, "psrt_fake_enqueue");
    find(release, "psrt_fake_release");
    find(acquire, "psrt_fake_acquire");
    find(waits, "psrt_fake_waits");
  }
};

/// Fails the test unless the call succeeds.
#define OK(call) ASSERT_EQ(CUDA_SUCCESS, call)

class FakeTest : public testing::Test {
protected:
  void SetUp() override { start({}); }

  void TearDown() override {
    OK(cu.primaryCtxRelease(0));
    for (const std::string &name : changed)
      unsetenv(name.c_str());
  }

  /// Initializes the driver with these environment variables.
  void start(const std::vector<std::pair<std::string, std::string>> &variables) {
    for (const auto &[name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
      changed.push_back(name);
    }
    if (context) {
      OK(cu.primaryCtxRelease(0));
    }
    OK(cu.init(0));
    OK(cu.primaryCtxRetain(&context, 0));
    OK(cu.ctxSetCurrent(context));
  }

  CUstream newStream() {
    CUstream stream = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, cu.streamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
  }

  CUevent newEvent(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    CUevent event = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, cu.eventCreate(&event, flags));
    return event;
  }

  /// Makes later work of `to` wait for the current work of `from`.
  void order(CUstream from, CUstream to) {
    CUevent event = newEvent();
    EXPECT_EQ(CUDA_SUCCESS, cu.eventRecord(event, from));
    EXPECT_EQ(CUDA_SUCCESS, cu.streamWaitEvent(to, event, 0));
    EXPECT_EQ(CUDA_SUCCESS, cu.eventDestroy(event));
  }

  template <typename T = float> CUdeviceptr allocate(size_t count) {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(CUDA_SUCCESS, cu.memAlloc(&pointer, count * sizeof(T)));
    return pointer;
  }

  template <typename T> CUdeviceptr upload(const std::vector<T> &values, CUstream stream) {
    CUdeviceptr pointer = allocate<T>(values.size());
    EXPECT_EQ(CUDA_SUCCESS,
              cu.memcpyHtoDAsync(pointer, values.data(), values.size() * sizeof(T), stream));
    return pointer;
  }

  /// Returns the memory's contents after all work of the stream.
  template <typename T> std::vector<T> download(CUdeviceptr from, size_t count, CUstream stream) {
    std::vector<T> values(count);
    EXPECT_EQ(CUDA_SUCCESS, cu.memcpyDtoHAsync(values.data(), from, count * sizeof(T), stream));
    EXPECT_EQ(CUDA_SUCCESS, cu.streamSynchronize(stream));
    return values;
  }

  /// Blocks the stream until open() is called.
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool isOpen = false;
    void open() {
      std::lock_guard<std::mutex> lock(mutex);
      isOpen = true;
      changed.notify_all();
    }
    static void pass(void *data) {
      auto *gate = static_cast<Gate *>(data);
      std::unique_lock<std::mutex> lock(gate->mutex);
      gate->changed.wait(lock, [&] { return gate->isOpen; });
    }
  };

  /// Returns the image with the test kernels.
  static std::string readImage() {
    std::ifstream file(PSRT_TEST_KERNELS, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  CUfunction kernel(const char *name) {
    static const std::string image = readImage();
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, cu.moduleLoadDataEx(&module, image.data(), 0, nullptr, nullptr));
    EXPECT_EQ(CUDA_SUCCESS, cu.moduleGetFunction(&function, module, name));
    return function;
  }

  template <typename... Parameters>
  CUresult launch(CUfunction function, unsigned grid, unsigned block, CUstream stream,
                  Parameters... parameters) {
    void *pointers[] = {&parameters..., nullptr, nullptr};
    return cu.launchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, pointers, nullptr);
  }

  /// Launches a kernel after announcing its accesses.
  template <typename... Parameters>
  CUresult launchOn(std::vector<PsrtFakeAccess> touched, const char *name, CUfunction function,
                    CUstream stream, Parameters... parameters) {
    cu.access(stream, name, int(touched.size()), touched.data());
    return launch(function, 1, 1, stream, parameters...);
  }

  inline static Driver cu{PSRT_FAKE_CUDA};
  CUcontext context = nullptr;
  unsigned shared = 0;
  std::vector<std::string> changed;
};

} // namespace psrt::cuda

#endif
