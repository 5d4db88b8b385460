// Traces become the steps that were run.
#include "lib/Schedules/Trace.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace parashard::schedules;

namespace {

/// A trace of events, times in ms.
class Text {
public:
  explicit Text(int64_t ranks) {
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

/// Two stages, two micro-batches, two steps: the first takes twice as long.
std::string makeTrace() {
  Text text(2);
  for (int64_t step : {0, 1}) {
    double at = 100.0 * double(step), unit = step ? 1 : 2;
    for (int64_t m : {0, 1}) {
      text.run(0, step, "forward", 0, m, at + unit * double(m), unit / 2);
      text.run(0, step, "forward", 0, m, at + unit * (double(m) + 0.5), unit / 2);
    }
    for (int64_t m : {0, 1}) {
      double begin = at + unit * (1 + 4 * double(m));
      text.run(1, step, "forward", 1, m, begin, unit);
      text.run(1, step, "backward_input", 1, m, begin + unit, 2 * unit);
      text.run(1, step, "backward_weight", 1, m, begin + 3 * unit, unit);
      text.run(0, step, "backward_input", 0, m, begin + 4 * unit, unit);
    }
    text.run(1, step, "update", -1, 0, at + 50, unit);
  }
  return text.get();
}

} // namespace

TEST(Trace, EventsAreJoinedToTasks) {
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
  // The first stage has no weight gradients of its own; the second does both one after the other.
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

TEST(Trace, TheFirstStepDoesNotCount) {
  MeasuredPipeline measured = llvm::cantFail(readTrace(makeTrace()));
  EXPECT_DOUBLE_EQ(measured.stages[0].forward, 1);
  EXPECT_DOUBLE_EQ(measured.stages[0].backwardWeight, 0);
  EXPECT_DOUBLE_EQ(measured.stages[1].backwardInput, 2);
  EXPECT_DOUBLE_EQ(measured.stages[1].backwardWeight, 1);
  EXPECT_DOUBLE_EQ(measured.update, 1);
}

TEST(Trace, WhatIsNoneIsRefused) {
  for (const char *text : {"", "[]", "{\"traceEvents\": 3}", "{\"traceEvents\": [{}, 1, null]}"})
    EXPECT_NE(llvm::toString(readTrace(text).takeError()), "") << text;
  Text one(1);
  one.run(0, 0, "forward", 0, 0, 0, 1);
  EXPECT_EQ(llvm::toString(readTrace(one.get()).takeError()), "the trace is not of a pipeline");
  Text odd(2); // stage 2 of three on two coordinates
  for (int64_t stage : {0, 1, 2})
    odd.run(stage % 2, 0, "forward", stage, 0, 0, 1);
  EXPECT_NE(llvm::toString(readTrace(odd.get()).takeError()).find("incomplete"), std::string::npos);
}
