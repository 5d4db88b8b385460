// Tests reading measured steps from traces.
#include "lib/Schedules/Trace.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace parashard::schedules;

namespace {

/// Builds the text of a trace from events with times in ms.
class TraceText {
public:
  explicit TraceText(int64_t ranks) {
    for (int64_t rank = 0; rank < ranks; ++rank)
      add(llvm::formatv(R"("ph": "M", "pid": {0}, "args": {{"name": "rank {0}", "pp": {0}})",
                        rank));
  }
  void run(int64_t rank, int64_t step, const char *phase, int64_t stage, int64_t microBatch,
           double begin, double duration) {
    add(llvm::formatv(R"("ph": "X", "pid": {0}, "ts": {1}, "dur": {2}, "args": {{"step": {3}, )"
                      R"("phase": "{4}", "stage": {5}, "micro_batch": {6}})",
                      rank, begin * 1e3, duration * 1e3, step, phase, stage, microBatch));
  }
  std::string get() const { return "{\"traceEvents\": [" + events + "]}"; }

private:
  void add(const std::string &members) { events += (events.empty() ? "{" : ",{") + members + "}"; }
  std::string events;
};

/// Returns a trace of two stages, two micro-batches and two steps. The first step takes twice as
/// long.
std::string makeTrace() {
  TraceText text(2);
  for (int64_t step : {0, 1}) {
    double at = 100.0 * double(step), duration = step ? 1 : 2;
    for (int64_t m : {0, 1}) {
      text.run(0, step, "forward", 0, m, at + duration * double(m), duration / 2);
      text.run(0, step, "forward", 0, m, at + duration * (double(m) + 0.5), duration / 2);
    }
    for (int64_t m : {0, 1}) {
      double begin = at + duration * (1 + 4 * double(m));
      text.run(1, step, "forward", 1, m, begin, duration);
      text.run(1, step, "backward_input", 1, m, begin + duration, 2 * duration);
      text.run(1, step, "backward_weight", 1, m, begin + 3 * duration, duration);
      text.run(0, step, "backward_input", 0, m, begin + 4 * duration, duration);
    }
    text.run(1, step, "update", -1, 0, at + 50, duration);
  }
  return text.get();
}

} // namespace

TEST(Trace, EventsAreMergedIntoTasks) {
  MeasuredPipeline measured = llvm::cantFail(readTrace(makeTrace()));
  EXPECT_EQ(measured.placement.ranks, 2);
  EXPECT_EQ(measured.placement.chunks, 1);
  EXPECT_EQ(measured.microBatches, 2);
  ASSERT_EQ(measured.steps.size(), 2u);
  EXPECT_EQ(measured.getTypicalStep().number, 1);
  const Replay &run = measured.steps[1].run;
  ASSERT_EQ(run.rows.size(), 2u);
  std::vector<Task> first, second;
  for (const Span &span : run.rows[0])
    first.push_back(span.task);
  for (const Span &span : run.rows[1])
    second.push_back(span.task);
  // The first stage has no weight gradients. The second runs both halves of the backward in
  // sequence.
  EXPECT_EQ(first, (std::vector<Task>{{Work::Forward, 0, 0},
                                      {Work::Forward, 0, 1},
                                      {Work::Backward, 0, 0},
                                      {Work::Backward, 0, 1}}));
  EXPECT_EQ(second, (std::vector<Task>{{Work::Forward, 0, 0},
                                       {Work::Backward, 0, 0},
                                       {Work::Forward, 0, 1},
                                       {Work::Backward, 0, 1}}));
  EXPECT_DOUBLE_EQ(run.makespan, 10);
  EXPECT_DOUBLE_EQ(run.bubble, 1 - 12.0 / 20);
  EXPECT_EQ(run.peakLive, (std::vector<int64_t>{2, 1}));
}

TEST(Trace, TheFirstStepIsIgnored) {
  MeasuredPipeline measured = llvm::cantFail(readTrace(makeTrace()));
  EXPECT_DOUBLE_EQ(measured.stages[0].forward, 1);
  EXPECT_DOUBLE_EQ(measured.stages[0].backwardWeight, 0);
  EXPECT_DOUBLE_EQ(measured.stages[1].backwardInput, 2);
  EXPECT_DOUBLE_EQ(measured.stages[1].backwardWeight, 1);
  EXPECT_DOUBLE_EQ(measured.update, 1);
}

TEST(Trace, RejectsOtherFiles) {
  for (const char *text : {"", "[]", "{\"traceEvents\": 3}", "{\"traceEvents\": [{}, 1, null]}"})
    EXPECT_NE(llvm::toString(readTrace(text).takeError()), "") << text;
  TraceText single(1);
  single.run(0, 0, "forward", 0, 0, 0, 1);
  EXPECT_EQ(llvm::toString(readTrace(single.get()).takeError()), "the trace is not of a pipeline");
  TraceText odd(2); // three stages on two coordinates
  for (int64_t stage : {0, 1, 2})
    odd.run(stage % 2, 0, "forward", stage, 0, 0, 1);
  EXPECT_NE(llvm::toString(readTrace(odd.get()).takeError()).find("lost events"),
            std::string::npos);
}
