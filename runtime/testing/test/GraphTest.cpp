// Tests stream capture and graphs.
#include "runtime/testing/test/FakeFixture.h"
#include <thread>

using namespace psrt::cuda;

/// A capture that forks to a second stream, which sets value = 1; after the join, sum += value.
class GraphTest : public FakeTest {
protected:
  void SetUp() override {
    FakeTest::SetUp();
    kernelLater = kernel("later");
    kernelAdd = kernel("add");
    main = newStream();
    side = newStream();
    value = allocate<int>(1);
    sum = upload(std::vector<int>{0}, main);
    OK(cu.streamSynchronize(main));
  }

  void captureBody(bool join = true) {
    OK(cu.streamBeginCapture(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    order(main, side);
    OK(launchOn({{value, value + 4, 1}}, "later", kernelLater, side, value, 1));
    if (join)
      order(side, main);
    OK(launchOn({{value, value + 4, 0}, {sum, sum + 4, 1}}, "add", kernelAdd, main, value, sum));
  }

  CUgraphExec captureAll() {
    captureBody();
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    EXPECT_EQ(CUDA_SUCCESS, cu.streamEndCapture(main, &graph));
    EXPECT_EQ(CUDA_SUCCESS, cu.graphInstantiate(&exec, graph, 0));
    EXPECT_EQ(CUDA_SUCCESS, cu.graphDestroy(graph));
    return exec;
  }

  /// Checks that ending the capture fails with this error, and that both streams work afterwards.
  void expectEnd(CUresult result) {
    CUgraph graph = nullptr;
    EXPECT_EQ(result, cu.streamEndCapture(main, &graph));
    EXPECT_EQ(CUDA_SUCCESS, cu.streamSynchronize(main));
    EXPECT_EQ(CUDA_SUCCESS, cu.streamSynchronize(side));
  }

  CUstream main = nullptr, side = nullptr;
  CUdeviceptr value = 0, sum = 0;
  CUfunction kernelLater = nullptr, kernelAdd = nullptr;
};

TEST_F(GraphTest, each_launch_runs_the_captured_work_once) {
  CUgraphExec exec = captureAll();
  EXPECT_EQ(0, download<int>(sum, 1, main)[0]); // a capture runs nothing
  for (int i = 0; i < 3; ++i)
    OK(cu.graphLaunch(exec, main));
  EXPECT_EQ(3, download<int>(sum, 1, main)[0]);
  CUstream other = newStream();
  OK(cu.graphLaunch(exec, main));
  OK(cu.graphLaunch(exec, other)); // launches of one graph are serialized
  EXPECT_EQ(5, download<int>(sum, 1, other)[0]);
  OK(cu.graphExecDestroy(exec));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cu.graphLaunch(exec, main));
}

TEST_F(GraphTest, launches_are_ordered_with_the_stream_s_other_work) {
  CUgraphExec exec = captureAll();
  OK(launchOn({{value, value + 4, 1}}, "before", kernelLater, main, value, 100));
  OK(cu.graphLaunch(exec, main));
  OK(launchOn({{value, value + 4, 1}}, "after", kernelLater, main, value, 7));
  EXPECT_EQ(1, download<int>(sum, 1, main)[0]);
  EXPECT_EQ(7, download<int>(value, 1, main)[0]);
}

TEST_F(GraphTest, launches_of_a_graph_are_checked_for_order) {
  CUgraphExec exec = captureAll();
  OK(cu.graphLaunch(exec, main));
  testing::internal::CaptureStderr();
  OK(launchOn({{sum, sum + 4, 1}}, "beside", kernelLater, newStream(), sum, 7));
  EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cu.streamSynchronize(main));
  std::string messages = testing::internal::GetCapturedStderr();
  EXPECT_NE(std::string::npos, messages.find("'beside")) << messages;
  EXPECT_NE(std::string::npos, messages.find("'add")) << messages;
}

TEST_F(GraphTest, memory_of_a_graph_may_not_be_freed_before_it_runs) {
  CUgraphExec exec = captureAll();
  OK(cu.memFree(value));
  testing::internal::CaptureStderr();
  OK(cu.graphLaunch(exec, main));
  EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cu.streamSynchronize(main));
  EXPECT_NE(std::string::npos, testing::internal::GetCapturedStderr().find("in no allocation"));
}

TEST_F(GraphTest, work_that_is_not_joined_is_an_error) {
  captureBody(false);
  expectEnd(904); // CUDA_ERROR_STREAM_CAPTURE_UNJOINED
}

TEST_F(GraphTest, a_capture_allows_no_host_waits) {
  captureBody();
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.streamSynchronize(main));
  expectEnd(901); // CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
  captureBody();
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.streamQuery(newStream()));
  expectEnd(901);
  captureBody();
  std::thread([&] { // also from a thread without a capture
    OK(cu.ctxSetCurrent(context));
    EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.streamSynchronize(side));
  })
      .join();
  expectEnd(901);
  captureBody();
  CUdeviceptr pointer;
  EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu.memAlloc(&pointer, 4));
  expectEnd(901);
}

TEST_F(GraphTest, a_capture_cannot_wait_for_uncaptured_work) {
  CUevent event = newEvent();
  OK(cu.eventRecord(event, side));
  OK(cu.streamBeginCapture(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(905, cu.streamWaitEvent(main, event, 0)); // CUDA_ERROR_STREAM_CAPTURE_ISOLATION
  expectEnd(901);
}

TEST_F(GraphTest, captures_begin_once_and_end_where_they_began) {
  CUgraph graph;
  EXPECT_EQ(401, cu.streamEndCapture(main, &graph)); // CUDA_ERROR_ILLEGAL_STATE
  captureBody();
  EXPECT_EQ(401, cu.streamBeginCapture(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(903, cu.streamEndCapture(side, &graph)); // CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
  expectEnd(CUDA_SUCCESS);
}

TEST_F(GraphTest, the_host_cannot_wait_for_captured_events) {
  CUevent event = newEvent();
  OK(cu.streamBeginCapture(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  OK(cu.eventRecord(event, main));
  expectEnd(CUDA_SUCCESS);
  EXPECT_EQ(907, cu.eventSynchronize(event)); // CUDA_ERROR_CAPTURED_EVENT
  EXPECT_EQ(907, cu.streamWaitEvent(side, event, 0));
}

TEST_F(GraphTest, each_wait_of_a_graph_is_needed) {
  for (int drop = 1; drop <= 2; ++drop) {
    start({{"PSRT_FAKE_DROP", std::to_string(drop)}});
    main = newStream();
    side = newStream();
    value = upload(std::vector<int>{0}, main);
    sum = upload(std::vector<int>{0}, main);
    kernelLater = kernel("later");
    kernelAdd = kernel("add");
    CUgraphExec exec = captureAll();
    testing::internal::CaptureStderr();
    OK(cu.graphLaunch(exec, main));
    CUresult result = cu.streamSynchronize(main);
    std::string messages = testing::internal::GetCapturedStderr();
    // The launch of the graph already orders the fork, so the run succeeds without the first wait.
    EXPECT_EQ(drop == 1 ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED, result) << messages;
  }
}
