// The picture of a timeline has what it is to show.
#include "lib/Plan/Timeline.h"
#include "gtest/gtest.h"

using namespace parashard::plan;

static size_t count(llvm::StringRef text, llvm::StringRef part) { return text.count(part); }

TEST(Timeline, HasABoxForEachTaskAndACurveForEachRank) {
  Timetable table = llvm::cantFail(makeTimetable("zb-v", {4, 2, 8}));
  Replay result = llvm::cantFail(replay(table, {std::vector<StageTimes>(8), 0}));
  std::string text;
  llvm::raw_string_ostream os(text);
  writeTimeline(result, {"<model> & more", "ms", {}}, os);
  size_t boxes = 0;
  for (const std::vector<Span> &row : result.rows)
    boxes += row.size();
  EXPECT_EQ(boxes, 4u * 2 * 8 * 3);
  EXPECT_EQ(count(text, " to "), boxes);
  EXPECT_EQ(count(text, "class=\"held\""), 4u);
  EXPECT_NE(text.find("&lt;model&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(text.find("<model>"), std::string::npos);
}

/// Eight ranks and 32 micro-batches stay legible: every box has room for its number.
TEST(Timeline, NumbersFit) {
  Timetable table = llvm::cantFail(makeTimetable("1f1b", {8, 1, 32}));
  Replay result = llvm::cantFail(replay(table, {std::vector<StageTimes>(8), 0.1}));
  std::string text;
  llvm::raw_string_ostream os(text);
  writeTimeline(result, {"1f1b", "", {}}, os);
  EXPECT_EQ(count(text, "class=\"number\""), 8u * 32 * 2);
}
