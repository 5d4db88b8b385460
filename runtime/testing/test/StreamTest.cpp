// Checks the order in which streams, events and copies run, which calls block, and how the fake
// driver reports errors.
#include "runtime/testing/test/FakeFixture.h"
#include <atomic>
#include <chrono>
#include <thread>

using namespace psrt::cuda;

TEST_F(FakeTest, work_of_a_stream_runs_in_order_and_concurrently_with_the_host) {
  CUstream stream = newStream();
  Gate gate;
  CUdeviceptr values = allocate<int>(100);
  OK(cu.launchHostFunc(stream, Gate::pass, &gate));
  OK(launch(kernel("fill"), 2, 32, stream, values, 7, int64_t(100)));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu.streamQuery(stream));
  gate.open();
  std::vector<int> result = download<int>(values, 100, stream);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(7 + i, result[size_t(i)]);
  EXPECT_EQ(CUDA_SUCCESS, cu.streamQuery(stream));
}

TEST_F(FakeTest, streams_do_not_wait_for_each_other) {
  CUstream busy = newStream(), free = newStream();
  Gate gate;
  OK(cu.launchHostFunc(busy, Gate::pass, &gate));
  OK(cu.launchHostFunc(free, [](void *data) { static_cast<Gate *>(data)->open(); }, &gate));
  OK(cu.streamSynchronize(busy));
}

TEST_F(FakeTest, a_wait_refers_to_the_last_record_before_it) {
  CUstream first = newStream(), second = newStream();
  CUevent event = newEvent();
  Gate gate;
  OK(cu.streamWaitEvent(second, event, 0)); // never recorded: does not wait
  OK(cu.streamSynchronize(second));
  OK(cu.eventRecord(event, first));
  OK(cu.streamWaitEvent(second, event, 0));
  OK(cu.launchHostFunc(first, Gate::pass, &gate));
  OK(cu.eventRecord(event, first)); // the wait above does not refer to this record
  OK(cu.streamSynchronize(second));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu.eventQuery(event));
  OK(cu.streamWaitEvent(second, event, 0));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu.streamQuery(second));
  gate.open();
  OK(cu.streamSynchronize(second));
  EXPECT_EQ(CUDA_SUCCESS, cu.eventQuery(event));
}

TEST_F(FakeTest, a_destroyed_event_keeps_its_order) {
  CUstream first = newStream(), second = newStream();
  CUdeviceptr value = allocate<int>(1);
  OK(launch(kernel("later"), 1, 1, first, value, 41));
  order(first, second);
  EXPECT_EQ(41, download<int>(value, 1, second)[0]);
}

TEST_F(FakeTest, events_measure_time) {
  CUstream stream = newStream();
  CUevent start = newEvent(CU_EVENT_DEFAULT), end = newEvent(CU_EVENT_DEFAULT);
  float milliseconds = 0;
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu.eventElapsedTime(&milliseconds, start, end));
  OK(cu.eventRecord(start, stream));
  OK(launch(kernel("later"), 1, 1, stream, allocate<int>(1), 1));
  OK(cu.eventRecord(end, stream));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cu.eventElapsedTime(&milliseconds, start, end));
  OK(cu.eventSynchronize(end));
  OK(cu.eventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 20);
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu.eventElapsedTime(&milliseconds, newEvent(), end));
}

TEST_F(FakeTest, pageable_memory_is_read_at_the_call_and_pinned_memory_when_the_copy_runs) {
  CUstream stream = newStream();
  Gate gate;
  int pageable = 1, *pinned = nullptr;
  CUdeviceptr values = allocate<int>(2);
  OK(cu.memHostAlloc(reinterpret_cast<void **>(&pinned), sizeof(int), CU_MEMHOSTALLOC_PORTABLE));
  *pinned = 1;
  OK(cu.launchHostFunc(stream, Gate::pass, &gate));
  OK(cu.memcpyHtoDAsync(values, &pageable, sizeof(int), stream));
  OK(cu.memcpyHtoDAsync(values + sizeof(int), pinned, sizeof(int), stream));
  pageable = *pinned = 2;
  gate.open();
  EXPECT_EQ((std::vector<int>{1, 2}), download<int>(values, 2, stream));
  OK(cu.memFreeHost(pinned));
}

TEST_F(FakeTest, copies_and_memsets) {
  CUstream stream = newStream();
  CUdeviceptr from = upload(std::vector<int>{1, 2, 3, 4}, stream), to = allocate<int>(4);
  OK(cu.memsetD8Async(to, 0xff, 16, stream));
  OK(cu.memcpyDtoDAsync(to + 4, from + 8, 8, stream));
  EXPECT_EQ((std::vector<int>{-1, 3, 4, -1}), download<int>(to, 4, stream));
}

TEST_F(FakeTest, fresh_memory_is_not_zero) {
  EXPECT_EQ((std::vector<int>{-1, -1}), download<int>(allocate<int>(2), 2, newStream()));
}

TEST_F(FakeTest, host_functions_may_not_call_the_driver) {
  CUstream stream = newStream();
  CUresult result = CUDA_SUCCESS;
  OK(cu.launchHostFunc(
      stream,
      [](void *data) {
        size_t free, total;
        *static_cast<CUresult *>(data) = cu.memGetInfo(&free, &total);
      },
      &result));
  OK(cu.streamSynchronize(stream));
  EXPECT_EQ(800, result); // CUDA_ERROR_NOT_PERMITTED
}

TEST_F(FakeTest, a_destroyed_stream_finishes_its_work) {
  CUstream stream = newStream(), other = newStream();
  CUdeviceptr value = allocate<int>(1);
  CUevent event = newEvent();
  OK(launch(kernel("later"), 1, 1, stream, value, 5));
  OK(cu.eventRecord(event, stream));
  OK(cu.streamDestroy(stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu.streamSynchronize(stream));
  OK(cu.streamWaitEvent(other, event, 0));
  EXPECT_EQ(5, download<int>(value, 1, other)[0]);
}

TEST_F(FakeTest, freeing_memory_waits_for_all_work) {
  CUstream stream = newStream();
  CUdeviceptr value = allocate<int>(1);
  OK(launch(kernel("later"), 1, 1, stream, value, 5));
  OK(cu.streamDestroy(stream));
  OK(cu.memFree(value));
}

TEST_F(FakeTest, bad_arguments_are_errors) {
  CUstream stream = newStream(), none = nullptr;
  auto bad = reinterpret_cast<CUstream>(this);
  CUdeviceptr values = allocate<int>(4);
  int host[5] = {};
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu.streamSynchronize(bad));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu.memsetD8Async(values, 0, 4, none));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu.eventRecord(reinterpret_cast<CUevent>(stream), stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.memcpyHtoDAsync(values, host, 20, stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.memcpyHtoDAsync(values, nullptr, 16, stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.memcpyDtoHAsync(host, values + 4, 16, stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.memsetD8Async(values, 0, 17, stream));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.memFree(values + 4));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.memAlloc(&values, 0));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.streamCreate(nullptr, 0));
  int ordinal;
  EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cu.deviceGet(&ordinal, 1));
  EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(none));
}

TEST_F(FakeTest, a_thread_without_a_context_is_refused) {
  CUresult result = CUDA_SUCCESS;
  CUdeviceptr values;
  std::thread([&] { result = cu.memAlloc(&values, 4); }).join();
  EXPECT_EQ(201, result); // CUDA_ERROR_INVALID_CONTEXT
}

TEST_F(FakeTest, device_memory_is_limited) {
  start({{"PSRT_FAKE_MEMORY", "1048576"}});
  size_t free = 0, total = 0;
  OK(cu.memGetInfo(&free, &total));
  EXPECT_EQ(1048576u, total);
  EXPECT_EQ(total, free);
  CUdeviceptr half = 0, rest = 0;
  OK(cu.memAlloc(&half, 1 << 19));
  EXPECT_EQ(0u, half % 256);
  EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cu.memAlloc(&rest, (1 << 19) + 1));
  OK(cu.memGetInfo(&free, &total));
  EXPECT_EQ(size_t(1) << 19, free);
  OK(cu.memFree(half));
  OK(cu.memAlloc(&rest, 1 << 20));
}

TEST_F(FakeTest, devices_follow_the_environment) {
  start({{"PSRT_FAKE_DEVICES", "2"}, {"PSRT_FAKE_CAPABILITY", "8.0"}});
  int count = 0, major = 0, version = 0;
  char name[64];
  OK(cu.deviceGetCount(&count));
  EXPECT_EQ(2, count);
  OK(cu.deviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 1));
  EXPECT_EQ(8, major);
  OK(cu.deviceGetName(name, sizeof(name), 1));
  EXPECT_STREQ("Parashard fake", name);
  OK(cu.driverGetVersion(&version));
  EXPECT_EQ(13000, version);
  // Streams of one device cannot be used with kernels or events of another.
  CUcontext other;
  OK(cu.primaryCtxRetain(&other, 1));
  CUfunction fill = kernel("fill");
  OK(cu.ctxSetCurrent(other));
  CUstream stream = newStream();
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, launch(fill, 1, 1, stream, allocate<int>(1), 1, int64_t(1)));
  OK(cu.primaryCtxRelease(1));
  OK(cu.ctxSetCurrent(context));
}

TEST_F(FakeTest, errors_have_names) {
  const char *text = nullptr;
  OK(cu.getErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ("CUDA_ERROR_OUT_OF_MEMORY", text);
  OK(cu.getErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
  EXPECT_STREQ("out of memory", text);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cu.getErrorName(12345, &text));
}
