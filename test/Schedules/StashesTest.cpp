// What goes to the host's memory, and when.
#include "lib/Schedules/Stashes.h"
#include <gtest/gtest.h>

using namespace parashard::schedules;

namespace {

/// A forward of four layers and their backward, of a second each; a layer keeps 8 bytes, which its
/// own backward needs.
StashProblem makeProblem(double bytesPerSecond) {
  StashProblem problem;
  problem.bytesPerSecond = bytesPerSecond;
  problem.seconds.assign(8, 1);
  problem.liveBytes.assign(8, 0);
  for (int64_t layer = 0; layer < 4; ++layer) {
    problem.away.push_back({layer, 7 - layer, 8});
    for (int64_t step = layer; step <= 7 - layer; ++step)
      problem.liveBytes[step] += 8;
  }
  return problem;
}

TEST(Stashes, FastCopiesHideBesideOneLayer) {
  auto places = chooseStashes(makeProblem(/*bytesPerSecond=*/8));
  ASSERT_TRUE(places[0]);
  EXPECT_EQ(places[0]->gone, 2);  // started behind step 0, beside step 1
  EXPECT_EQ(places[0]->fetch, 6); // beside step 6, for step 7
  EXPECT_TRUE(places[1]);
  EXPECT_FALSE(places[3]); // its backward comes at once
}

TEST(Stashes, SlowCopiesFollowOneAnother) {
  auto places = chooseStashes(makeProblem(/*bytesPerSecond=*/4));
  ASSERT_TRUE(places[0]);
  EXPECT_EQ(places[0]->gone, 3);
  EXPECT_EQ(places[0]->fetch, 5);
  // The copy of the second would end behind step 4, and must then be back for step 6.
  EXPECT_FALSE(places[1]);
}

TEST(Stashes, WhatIsTooSlowStays) {
  for (const auto &place : chooseStashes(makeProblem(/*bytesPerSecond=*/1)))
    EXPECT_FALSE(place);
}

TEST(Stashes, AllMindsTheBytesAlone) {
  StashProblem problem = makeProblem(/*bytesPerSecond=*/1);
  problem.onlyHidden = false;
  auto places = chooseStashes(problem);
  ASSERT_TRUE(places[0]);
  EXPECT_EQ(places[0]->gone, 2);
  EXPECT_EQ(places[0]->fetch, 6);
  EXPECT_FALSE(places[3]);
}

TEST(Stashes, WhatHelpsNoPeakStays) {
  StashProblem problem = makeProblem(/*bytesPerSecond=*/8);
  problem.liveBytes[0] = 1000; // the fullest step is one in which all are there
  for (const auto &place : chooseStashes(problem))
    EXPECT_FALSE(place);
}

} // namespace
