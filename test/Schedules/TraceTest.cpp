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
  /// Adds an instruction of a program without a pipeline.
  void runFlat(int64_t rank, int64_t step, const char *phase, const char *category, double begin,
               double duration) {
    add(llvm::formatv(R"("ph": "X", "cat": "{0}", "pid": {1}, "ts": {2}, "dur": {3}, )"
                      R"("args": {{"step": {4}, "phase": "{5}", "in": "block.{5} 3"})",
                      category, rank, begin * 1e3, duration * 1e3, step, phase));
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

/// Returns a trace of two ranks and four steps of 4, 8, 6 and 10 ms. Rank 1 is slower. An
/// evaluation has the same number as the last step.
TraceText makeFlatTrace() {
  TraceText text(2);
  for (int64_t step : {0, 1, 2, 3}) {
    double at = 100.0 * double(step), unit = step == 3 ? 5 : step == 2 ? 3 : step == 1 ? 4 : 2;
    for (int64_t rank : {0, 1}) {
      text.runFlat(rank, step, "forward", "matmul", at, unit * (rank ? 0.75 : 0.5));
      text.runFlat(rank, step, "forward", "collective", at + unit * 0.75, unit * 0.25);
      text.runFlat(rank, step, "update", "kernel", at + unit, unit * (rank ? 1 : 0.5));
    }
  }
  text.runFlat(1, 3, "evaluate", "matmul", 350, 50);
  return text;
}

} // namespace

TEST(Trace, TheSlowestRankMeasuresAStep) {
  Trace trace = llvm::cantFail(Trace::read(makeFlatTrace().get()));
  MeasuredSteps steps = llvm::cantFail(measureSteps(trace));
  EXPECT_EQ(trace.countStages(), 1);
  EXPECT_EQ(trace.countMicroBatches(), 1);
  EXPECT_FALSE(steps.isWarmUp);
  ASSERT_EQ(steps.seconds.size(), 2u); // neither the first step, nor the one with an evaluation
  EXPECT_NEAR(steps.seconds.at(1), 0.008, 1e-9);
  EXPECT_NEAR(steps.seconds.at(2), 0.006, 1e-9);
  EXPECT_NEAR(steps.getQuantile(0.5), 0.007, 1e-9);
  EXPECT_NEAR(steps.getQuantile(0.75), 0.0075, 1e-9);
}

TEST(Trace, RunsAreMeasuredWithoutCollectives) {
  Trace trace = llvm::cantFail(Trace::read(makeFlatTrace().get()));
  llvm::StringMap<double> runs = measureRuns(trace, llvm::cantFail(measureSteps(trace)));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_NEAR(runs.lookup("block.forward 3"), 0.75 * 0.0035, 1e-9);
  EXPECT_NEAR(runs.lookup("block.update 3"), 0.0035, 1e-9);
}

TEST(Trace, IncompleteStepsDoNotCount) {
  TraceText text = makeFlatTrace();
  text.runFlat(0, 4, "forward", "matmul", 400, 1); // rank 0 has recorded only a part of step 4
  for (int64_t step : {4, 5})                      // rank 0 has nothing of step 5
    for (const char *phase : {"forward", "forward", "update"})
      text.runFlat(1, step, phase, "matmul", 100.0 * double(step), 1);
  Trace trace = llvm::cantFail(Trace::read(text.get()));
  EXPECT_EQ(llvm::cantFail(measureSteps(trace)).seconds.size(), 2u);
  TraceText one(1);
  one.runFlat(0, 0, "forward", "matmul", 0, 1);
  std::string error =
      llvm::toString(measureSteps(llvm::cantFail(Trace::read(one.get()))).takeError());
  EXPECT_NE(error.find("no complete step"), std::string::npos) << error;
}

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
  EXPECT_EQ(llvm::toString(readTrace(single.get()).takeError()),
            "the trace is not of a pipeline; trace a program whose mesh has a pipeline axis, such "
            "as pp=2");
  TraceText odd(2); // three stages on two coordinates
  for (int64_t stage : {0, 1, 2})
    odd.run(stage % 2, 0, "forward", stage, 0, 0, 1);
  EXPECT_NE(llvm::toString(readTrace(odd.get()).takeError()).find("lost events"),
            std::string::npos);
}
