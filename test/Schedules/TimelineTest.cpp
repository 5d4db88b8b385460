// Tests the contents of the SVG timeline of a schedule.
#include "lib/Schedules/Timeline.h"
#include "gtest/gtest.h"

using namespace parashard::schedules;

/// Returns the replay of a schedule with equal times, and its SVG.
static std::pair<Replay, std::string> draw(llvm::StringRef schedule, ScheduleSize size,
                                           const TimelineOptions &options) {
  PipelineSchedule table = llvm::cantFail(makePipelineSchedule(schedule, size));
  std::vector<StageTimes> stages(table.placement.getNumStages());
  Replay result = llvm::cantFail(replay(table, {stages, 0.1}));
  std::string text;
  llvm::raw_string_ostream os(text);
  writeTimeline(result, options, os);
  return {result, text};
}

static size_t count(llvm::StringRef text, llvm::StringRef part) { return text.count(part); }

TEST(Timeline, HasABoxPerTaskAndACurvePerRank) {
  auto [result, text] = draw("zb-v", {4, 2, 8}, {"<model> & more", "ms", {}});
  size_t boxes = 0;
  for (const std::vector<Span> &row : result.rows)
    boxes += row.size();
  EXPECT_EQ(boxes, 4u * 2 * 8 * 3);
  EXPECT_EQ(count(text, " to "), boxes);
  EXPECT_EQ(count(text, "class=\"held\""), 4u);
  EXPECT_NE(text.find("&lt;model&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(text.find("<model>"), std::string::npos);
}

/// With eight ranks and 32 micro-batches, every box has room for its number.
TEST(Timeline, BoxesShowTheirNumbers) {
  auto [result, text] = draw("1f1b", {8, 1, 32}, {"1f1b", "", {}});
  EXPECT_EQ(count(text, "class=\"number\""), 8u * 32 * 2);
}

/// The first rank of 1F1B holds two micro-batches of 3000 bytes, the last rank one of 5000.
TEST(Timeline, ShowsTheBytesHeldByEachRank) {
  auto [result, text] = draw("1f1b", {2, 1, 4}, {"1f1b", "", {{3000}, {5000}}});
  EXPECT_NE(text.find("bytes held"), std::string::npos);
  EXPECT_NE(text.find("6.0 KB"), std::string::npos);
  EXPECT_NE(text.find("5.0 KB"), std::string::npos);
}
