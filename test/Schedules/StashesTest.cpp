// Tests which values are offloaded to host memory, and when.
#include "lib/Schedules/Stashes.h"
#include <gtest/gtest.h>

using namespace parashard::schedules;

namespace {

/// Returns a problem of four layers, forward and then backward, with steps of one second. Each
/// layer saves 8 bytes for its own backward.
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

TEST(Stashes, FastCopiesAreHiddenByOneLayer) {
  auto stashes = chooseStashes(makeProblem(/*bytesPerSecond=*/8));
  ASSERT_TRUE(stashes[0]);
  EXPECT_EQ(stashes[0]->gone, 2);  // copied during step 1
  EXPECT_EQ(stashes[0]->fetch, 6); // copied during step 6, for step 7
  EXPECT_TRUE(stashes[1]);
  EXPECT_FALSE(stashes[3]); // its backward follows directly
}

TEST(Stashes, SlowCopiesRunOneAfterAnother) {
  auto stashes = chooseStashes(makeProblem(/*bytesPerSecond=*/4));
  ASSERT_TRUE(stashes[0]);
  EXPECT_EQ(stashes[0]->gone, 3);
  EXPECT_EQ(stashes[0]->fetch, 5);
  // The copy of the second value would end after step 4, and the value must be back for step 6.
  EXPECT_FALSE(stashes[1]);
}

TEST(Stashes, ValuesWithTooSlowCopiesStay) {
  for (const auto &stash : chooseStashes(makeProblem(/*bytesPerSecond=*/1)))
    EXPECT_FALSE(stash);
}

TEST(Stashes, SpeedIsIgnoredIfCopiesNeedNotBeHidden) {
  StashProblem problem = makeProblem(/*bytesPerSecond=*/1);
  problem.onlyHidden = false;
  auto stashes = chooseStashes(problem);
  ASSERT_TRUE(stashes[0]);
  EXPECT_EQ(stashes[0]->gone, 2);
  EXPECT_EQ(stashes[0]->fetch, 6);
  EXPECT_FALSE(stashes[3]);
}

TEST(Stashes, ValuesThatDoNotLowerThePeakStay) {
  StashProblem problem = makeProblem(/*bytesPerSecond=*/8);
  problem.liveBytes[0] = 1000; // the peak is a step without values in host memory
  for (const auto &stash : chooseStashes(problem))
    EXPECT_FALSE(stash);
}

} // namespace
