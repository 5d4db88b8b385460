// Tests schedules against published bubbles and at many sizes, and the errors about user-defined
// schedules.
#include "test/Schedules/PublishedBubbles.h"
#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"
#include <random>

using namespace parashard::schedules;

static PipelineTimes makeTimes(const Placement &placement, StageTimes times, double hop = 0) {
  return {std::vector<StageTimes>(placement.getNumStages(), times), hop};
}

static PipelineSchedule make(llvm::StringRef schedule, ScheduleSize size) {
  return llvm::cantFail(makePipelineSchedule(schedule, size));
}

static Replay run(const PipelineSchedule &table, StageTimes times = {}, double hop = 0) {
  return llvm::cantFail(replay(table, makeTimes(table.placement, times, hop)));
}

//===----------------------------------------------------------------------===//
// Bubbles
//===----------------------------------------------------------------------===//

TEST(Bubbles, EqualThePublishedOnes) {
  for (const Published &row : kPublished) {
    StageTimes times{row.forward, row.backwardInput, row.backwardWeight};
    ScheduleSize size{row.ranks, 1, row.microBatches};
    EXPECT_NEAR(run(make("1f1b", size), times, row.hop).bubble, row.bubble1F1B, 5e-5);
    EXPECT_NEAR(run(make("zb-h1", size), times, row.hop).bubble, row.bubbleH1, 5e-5);
  }
}

/// With equal times for all tasks and no time for messages, makespans equal the closed forms of the
/// papers.
TEST(Bubbles, HaveTheirClosedForms) {
  for (int64_t p : {2, 4, 8})
    for (int64_t m : {8, 16, 32}) {
      double work = 3.0 * double(m), idle = 3.0 * double(p - 1);
      EXPECT_DOUBLE_EQ(run(make("gpipe", {p, 1, m})).makespan, work + idle);
      EXPECT_DOUBLE_EQ(run(make("1f1b", {p, 1, m})).makespan, work + idle);
      EXPECT_DOUBLE_EQ(run(make("interleaved", {p, 2, m})).makespan, 2 * work + idle);
      EXPECT_DOUBLE_EQ(run(make("zb-h1", {p, 1, m})).makespan, work + double(p - 1));
      EXPECT_DOUBLE_EQ(run(make("zb-v", {p, 2, m})).makespan, 2 * work + double(p - 1));
    }
}

TEST(Bubbles, AreZeroOnOneRank) {
  for (const Schedule &schedule : getSchedules())
    EXPECT_EQ(run(make(schedule.name, {1, schedule.minChunks, 5})).bubble, 0) << schedule.name;
}

/// Peak micro-batches per rank: GPipe holds all, rank r of 1F1B holds p - r, and the zero-bubble
/// schedules hold at most as much as the first rank of 1F1B.
TEST(Memory, PeaksEqualThePublishedOnes) {
  for (int64_t p : {2, 4, 8}) {
    std::vector<int64_t> falling;
    for (int64_t rank = 0; rank < p; ++rank)
      falling.push_back(p - rank);
    EXPECT_EQ(run(make("gpipe", {p, 1, 16})).peakLive, std::vector<int64_t>(p, 16));
    EXPECT_EQ(run(make("1f1b", {p, 1, 16})).peakLive, falling);
    for (int64_t held : run(make("zb-h1", {p, 1, 16})).peakLive)
      EXPECT_LE(held, p);
    for (int64_t held : run(make("zb-v", {p, 2, 16})).peakLive)
      EXPECT_LE(held, 2 * p); // chunks of half a rank's layers
  }
}

//===----------------------------------------------------------------------===//
// All sizes
//===----------------------------------------------------------------------===//

/// Uses random times, since the order of tasks might depend on the times.
TEST(Schedules, CompleteAtEverySize) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> time(0.1, 2);
  for (const Schedule &schedule : getSchedules())
    for (int64_t ranks = 1; ranks <= 7; ++ranks)
      for (int64_t chunks = schedule.minChunks; chunks <= std::min<int64_t>(4, schedule.maxChunks);
           ++chunks)
        for (int64_t m = 1; m <= 24; ++m) {
          PipelineSchedule table = make(schedule.name, {ranks, chunks, m});
          PipelineTimes times = makeTimes(table.placement, {}, time(random));
          for (StageTimes &stage : times.stages)
            stage = {time(random), time(random), time(random)};
          auto result = replay(table, times);
          EXPECT_TRUE(bool(result)) << llvm::toString(result.takeError()) << " " << schedule.name
                                    << " " << ranks << " x " << chunks << ", " << m;
        }
}

TEST(Schedules, LargeSizesAreFast) {
  Replay result = run(make("interleaved", {16, 2, 128}));
  EXPECT_EQ(result.rows.size(), 16u);
  EXPECT_EQ(result.rows[0].size(), 2u * 2 * 128);
}

TEST(Schedules, RejectUnsupportedSizes) {
  auto getError = [](llvm::StringRef name, ScheduleSize size) {
    return llvm::toString(makePipelineSchedule(name, size).takeError());
  };
  EXPECT_EQ(getError("1f1b", {4, 2, 8}),
            "the schedule '1f1b' needs 1 chunk per pipeline coordinate, got 2");
  EXPECT_EQ(getError("interleaved", {4, 1, 8}),
            "the schedule 'interleaved' needs 2 to 1024 chunks per pipeline coordinate, got 1");
  EXPECT_EQ(getError("gpip", {4, 1, 8}).substr(0, 55),
            "unknown schedule 'gpip'; the nearest names are 'gpipe',");
  EXPECT_EQ(getError("gpipe", {4, 1, 0}),
            "a pipeline needs at least 1 coordinate and 1 micro-batch, got 4 and 0");
}

//===----------------------------------------------------------------------===//
// User-defined tables
//===----------------------------------------------------------------------===//

static std::string writeRows(const PipelineSchedule &table) {
  std::string text = table.placement.kind == PlacementKind::V ? "{\"placement\": \"v\", " : "{";
  text += "\"chunks\": " + std::to_string(table.placement.chunks) + ", \"rows\": [";
  for (auto [rank, row] : llvm::enumerate(table.rows)) {
    text += rank ? ", [" : "[";
    for (auto [i, task] : llvm::enumerate(row))
      text += (i ? ", \"" : "\"") + describeTask(task) + "\"";
    text += "]";
  }
  return text + "]}";
}

TEST(Tables, BuiltInSchedulesRoundTrip) {
  for (const Schedule &schedule : getSchedules()) {
    PipelineSchedule table = make(schedule.name, {3, schedule.minChunks, 7});
    auto read = readPipelineSchedule(writeRows(table), "mine.json");
    ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
    EXPECT_EQ(read->rows, table.rows);
    EXPECT_EQ(run(*read).makespan, run(table).makespan);
  }
}

TEST(Tables, ErrorsAreReported) {
  auto getError = [](llvm::StringRef rows) {
    auto table = readPipelineSchedule(("{\"rows\": [" + rows + "]}").str(), "t");
    return table ? std::string() : llvm::toString(table.takeError());
  };
  EXPECT_EQ(getError(R"(["F0", "B0"])"), "");
  EXPECT_EQ(getError(""), "schedule 't' has rows: 0 (one per pipeline coordinate), chunks: 1, "
                          "micro-batches: 0; expected 1 to 1048576 of each");
  EXPECT_EQ(getError(R"(["F0", "F1", "B0"])"),
            "schedule 't', row 0: has 2 forwards, 1 backwards and "
            "1 weight gradients of chunk 0; expected 2 of each");
  EXPECT_EQ(getError(R"(["F0", "B0", "F0"])"), "schedule 't', row 0: F0 occurs twice");
  EXPECT_EQ(getError(R"(["F0", "I0", "W0", "W0"])"), "schedule 't', row 0: W0 occurs twice");
  EXPECT_EQ(getError(R"(["F0", "B0", "B1"], ["F0", "F1", "B0", "B1"])"),
            "schedule 't', row 0: B1 exists, but its forward, F1, is missing");
  EXPECT_EQ(getError(R"(["F0", "F1", "F2", "B0", "B2"])"),
            "schedule 't', row 0: B1 is missing, but B2 exists");
  EXPECT_EQ(getError(R"(["B0", "F0"])"), "schedule 't', row 0: B0 precedes its forward");
  EXPECT_EQ(getError(R"(["F0", "W0", "I0"])"),
            "schedule 't', row 0: W0 precedes the gradient of its inputs");
  EXPECT_EQ(getError(R"(["F0", "F1", "B1", "B0"])"),
            "schedule 't', row 0: B1 precedes the same task of micro-batch 0; gradients are added "
            "in the order of the micro-batches");
  EXPECT_EQ(
      getError(R"(["F1", "F0", "B0", "B1"])"),
      "schedule 't', row 0: F1 precedes the same task of micro-batch 0; running statistics are "
      "updated in the order of the micro-batches");
  EXPECT_EQ(getError(R"(["F0", "B0.1"])"),
            "schedule 't', row 0: B0.1 names chunk 1; the number of chunks is 1");
  EXPECT_EQ(getError(R"(["F0", "B7"])"),
            "schedule 't', row 0: B7 names micro-batch 7; the number of micro-batches is 1");
  EXPECT_EQ(getError(R"(["F0", "X0"])"), "schedule 't', row 0 has \"X0\"; expected F, B, I or W, a "
                                         "micro-batch, and an optional .CHUNK: \"F0\", \"W3.1\"");
}

/// Coordinate 0 runs the backward of micro-batch 0 before it sends micro-batch 1. Coordinate 1
/// waits for micro-batch 1 before it runs that backward.
TEST(Tables, DeadlocksNameTheCoordinates) {
  PipelineSchedule table = llvm::cantFail(readPipelineSchedule(
      R"({"rows": [["F0", "B0", "F1", "B1"], ["F0", "F1", "B0", "B1"]]})", "knot"));
  auto result = replay(table, makeTimes(table.placement, {}));
  ASSERT_FALSE(bool(result));
  EXPECT_EQ(llvm::toString(result.takeError()),
            "the schedule 'knot' deadlocks:\n"
            "  pipeline coordinate 0 at task 1, B0 of stage 0, waits for the backward of stage 1 "
            "on pipeline coordinate 1\n"
            "  pipeline coordinate 1 at task 1, F1 of stage 1, waits for the forward of stage 0 on "
            "pipeline coordinate 0");
}
