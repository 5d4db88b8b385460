// Tests the race detector: ordered programs pass, and each missing wait is detected.
#include "runtime/testing/test/FakeFixture.h"
#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>
#include <unistd.h>

using namespace psrt::cuda;

class OrderTest : public FakeTest {
protected:
  /// The status that the host received from the last program, and the messages that the program
  /// printed.
  CUresult result = CUDA_SUCCESS;
  std::string messages;
  int output[2] = {};

  template <typename Program> void check(Program program) {
    testing::internal::CaptureStderr();
    program();
    result = cu.streamSynchronize(newStream());
    messages = testing::internal::GetCapturedStderr();
  }

  void expectConflict(const char *first, const char *second) {
    EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, result);
    EXPECT_NE(std::string::npos, messages.find("no order between '" + std::string(first)))
        << messages;
    EXPECT_NE(std::string::npos, messages.find("and '" + std::string(second))) << messages;
  }

  void expectNone() {
    EXPECT_EQ(CUDA_SUCCESS, result);
    EXPECT_EQ("", messages);
  }

  /// Runs `before` on this thread, then `after` on a thread that used the driver earlier.
  template <typename Before, typename After> void inTurn(Before before, After after) {
    std::atomic<int> turn = 0;
    auto pass = [&turn](int to) {
      turn = to;
      turn.notify_all();
    };
    CUstream stream = newStream();
    std::thread other([&] {
      EXPECT_EQ(CUDA_SUCCESS, cu.ctxSetCurrent(context));
      EXPECT_EQ(CUDA_SUCCESS, cu.streamQuery(stream));
      pass(1);
      turn.wait(1);
      after();
    });
    turn.wait(0);
    before();
    pass(2);
    other.join();
  }

  /// Runs two rounds of a pipeline of three streams. Each stream waits before it reads or
  /// overwrites another stream's data.
  void pipeline() {
    CUstream copies = newStream(), compute = newStream(), results = newStream();
    CUfunction add = kernel("add");
    CUdeviceptr x = allocate<int>(1), y = allocate<int>(1);
    int input[2] = {1, 2};
    OK(cu.memsetD8Async(y, 0, 4, compute));
    for (int i = 0; i < 2; ++i) {
      OK(cu.memcpyHtoDAsync(x, input + i, 4, copies));
      order(copies, compute);
      OK(launchOn({{x, x + 4, 0}, {y, y + 4, 1}}, "add", add, compute, x, y));
      order(compute, copies); // x may be reused
      order(compute, results);
      OK(cu.memcpyDtoHAsync(output + i, y, 4, results));
      order(results, compute); // y may be overwritten
    }
    for (CUstream stream : {copies, compute, results})
      cu.streamSynchronize(stream);
  }
};

TEST_F(OrderTest, an_ordered_program_passes) {
  start({{"PSRT_FAKE_DELAY", "3000"}, {"PSRT_FAKE_STRICT", "1"}});
  check([&] { pipeline(); });
  expectNone();
  EXPECT_EQ(1, output[0]);
  EXPECT_EQ(3, output[1]);
  EXPECT_EQ(8u, cu.waits());
}

TEST_F(OrderTest, each_missing_wait_is_found) {
  for (int drop = 1; drop <= 8; ++drop) {
    start({{"PSRT_FAKE_DROP", std::to_string(drop)}});
    check([&] { pipeline(); });
    // The second round's waits for x and y protect a third round that does not exist.
    bool needed = drop != 6 && drop != 8;
    EXPECT_EQ(needed ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS, result) << drop << ": " << messages;
    EXPECT_EQ(needed, messages.find("no order between") != std::string::npos) << drop;
  }
}

TEST_F(OrderTest, reads_need_no_order_among_themselves) {
  CUstream first = newStream(), second = newStream();
  CUdeviceptr x = allocate<int>(1), y = allocate<int>(2);
  OK(cu.memsetD8Async(x, 0, 4, first));
  order(first, second);
  check([&] {
    OK(cu.memcpyDtoDAsync(y, x, 4, first));
    OK(cu.memcpyDtoDAsync(y + 4, x, 4, second));
  });
  expectNone();
}

TEST_F(OrderTest, ranges_that_overlap_by_a_byte_conflict) {
  CUstream first = newStream(), second = newStream();
  CUdeviceptr x = allocate<char>(16);
  OK(cu.memsetD8Async(x, 0, 8, first));
  check([&] { OK(cu.memsetD8Async(x + 8, 0, 8, second)); });
  expectNone();
  check([&] { OK(cu.memsetD8Async(x + 7, 0, 1, second)); });
  expectConflict("memset", "memset");
}

TEST_F(OrderTest, work_enqueued_after_a_host_wait_is_ordered_after_the_awaited_work) {
  CUstream first = newStream(), second = newStream();
  CUdeviceptr x = allocate<int>(1);
  CUevent event = newEvent();
  check([&] {
    OK(cu.memsetD8Async(x, 0, 4, first));
    OK(cu.streamSynchronize(first));
    OK(cu.memsetD8Async(x, 0, 4, second));
    OK(cu.eventRecord(event, second));
    OK(cu.eventSynchronize(event));
    OK(cu.memsetD8Async(x, 0, 4, first));
    while (cu.streamQuery(first) == CUDA_ERROR_NOT_READY)
      std::this_thread::yield();
    OK(cu.memsetD8Async(x, 0, 4, second));
  });
  expectNone();
  check([&] { OK(cu.memsetD8Async(x, 0, 4, first)); });
  expectConflict("memset", "memset");
}

TEST_F(OrderTest, another_host_thread_knows_what_it_acquired) {
  CUstream first = newStream(), second = newStream();
  CUdeviceptr x = allocate<int>(1);
  auto fill = [&] {
    OK(cu.memsetD8Async(x, 0, 4, first));
    OK(cu.streamSynchronize(first));
    cu.release(&x);
  };
  check([&] {
    inTurn(fill, [&] {
      cu.acquire(&x);
      OK(cu.memsetD8Async(x, 0, 4, second));
      OK(cu.streamSynchronize(second));
      cu.release(&x);
    });
    cu.acquire(&x);
  });
  expectNone();
  check([&] { inTurn(fill, [&] { OK(cu.memsetD8Async(x, 0, 4, second)); }); });
  expectConflict("memset", "memset");
}

TEST_F(OrderTest, a_new_host_thread_knows_what_the_others_know) {
  CUstream first = newStream(), second = newStream();
  CUdeviceptr x = allocate<int>(1);
  check([&] {
    OK(cu.memsetD8Async(x, 0, 4, first));
    OK(cu.streamSynchronize(first));
    std::thread([&] {
      OK(cu.ctxSetCurrent(context));
      OK(cu.memsetD8Async(x, 0, 4, second));
    }).join();
  });
  expectNone();
}

TEST_F(OrderTest, hosts_may_count_as_one) {
  start({{"PSRT_FAKE_HOSTS", "one"}});
  CUstream first = newStream(), second = newStream();
  CUdeviceptr x = allocate<int>(1);
  check([&] {
    inTurn(
        [&] {
          OK(cu.memsetD8Async(x, 0, 4, first));
          OK(cu.streamSynchronize(first));
        },
        [&] { OK(cu.memsetD8Async(x, 0, 4, second)); });
  });
  expectNone();
}

TEST_F(OrderTest, announced_host_accesses_are_checked) {
  CUstream stream = newStream();
  int *pinned = nullptr;
  OK(cu.memHostAlloc(reinterpret_cast<void **>(&pinned), 4, 0));
  auto at = reinterpret_cast<CUdeviceptr>(pinned);
  PsrtFakeAccess write{at, at + 4, 1};
  check([&] {
    cu.access(nullptr, "host writes the input", 1, &write);
    OK(cu.memcpyHtoDAsync(allocate<int>(1), pinned, 4, stream));
    OK(cu.streamSynchronize(stream));
    cu.access(nullptr, "host writes the input", 1, &write);
    OK(cu.memcpyHtoDAsync(allocate<int>(1), pinned, 4, stream));
  });
  expectNone();
  check([&] { cu.access(nullptr, "host writes too early", 1, &write); });
  expectConflict("copy host to device", "host writes too early");
}

TEST_F(OrderTest, freed_memory_is_forgotten) {
  CUstream first = newStream(), second = newStream();
  auto use = [&](CUstream stream) {
    CUdeviceptr x = allocate<int>(1); // at the same address each time
    OK(cu.memsetD8Async(x, 0, 4, stream));
    OK(cu.memFree(x));
  };
  check([&] { inTurn([&] { use(first); }, [&] { use(second); }); });
  expectNone();
}

TEST_F(OrderTest, announced_ranges_must_exist) {
  CUstream stream = newStream();
  CUdeviceptr x = allocate<int>(4);
  check(
      [&] { OK(launchOn({{x, x + 32, 1}}, "too far", kernel("fill"), stream, x, 0, int64_t(4))); });
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, result);
  EXPECT_NE(std::string::npos, messages.find("'too far (fill)'")) << messages;
}

TEST_F(OrderTest, strict_programs_announce_each_kernel) {
  start({{"PSRT_FAKE_STRICT", "1"}});
  CUstream stream = newStream();
  check([&] { OK(launch(kernel("fill"), 1, 1, stream, allocate<int>(1), 0, int64_t(1))); });
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, result);
  EXPECT_NE(std::string::npos, messages.find("kernel 'fill'")) << messages;
}

TEST_F(OrderTest, other_fakes_enqueue_work) {
  CUstream stream = newStream();
  static int runs, releases;
  runs = releases = 0;
  OK(cu.enqueue(
      stream, "matmul", [](void *data) { *static_cast<int *>(data) += 1; }, &runs,
      [](void *) { ++releases; }, 0, nullptr));
  OK(cu.streamSynchronize(stream));
  EXPECT_EQ(1, runs);
  EXPECT_EQ(1, releases);
}

TEST_F(OrderTest, the_log_has_one_line_per_operation) {
  std::string path = testing::TempDir() + "fake-log-" + std::to_string(getpid());
  start({{"PSRT_FAKE_LOG", path}});
  pipeline();
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::remove(path.c_str());
  EXPECT_NE(std::string::npos, text.find("kernel add")) << text;
  EXPECT_NE(std::string::npos, text.find(": wait 8")) << text;
}
