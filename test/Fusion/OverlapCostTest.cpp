// When it pays to cut a collective and its matmul.
#include "lib/Fusion/OverlapCost.h"
#include <gtest/gtest.h>

using namespace parashard::fusion;

namespace {

/// Of which everything of a collective is hidden.
constexpr MachineFigures kIdeal{1, 1, 1, 1, /*latency=*/0, /*halfRows=*/0, /*overlap=*/1};

TEST(OverlapCost, EqualTimesHalveAtMost) {
  OverlapCase what{/*matmul=*/8, /*rows=*/64, /*transfer=*/8, /*independent=*/0};
  EXPECT_DOUBLE_EQ(getOverlapTime(kIdeal, what, 1), 16);
  EXPECT_DOUBLE_EQ(getOverlapTime(kIdeal, what, 2), 12);
  EXPECT_DOUBLE_EQ(getOverlapTime(kIdeal, what, 8), 9);
  EXPECT_EQ(chooseChunks(kIdeal, what, 64), 16);
  EXPECT_EQ(chooseChunks(kIdeal, what, 6), 6);
  EXPECT_EQ(chooseChunks(kIdeal, what, 1), 1);
}

TEST(OverlapCost, LatencyBoundsTheChunks) {
  MachineFigures machine = kIdeal;
  OverlapCase what{8, 64, 8, 0};
  machine.latency = 1;
  int64_t some = chooseChunks(machine, what, 64);
  EXPECT_GT(some, 1);
  EXPECT_LT(some, 16);
  machine.latency = 100;
  EXPECT_EQ(chooseChunks(machine, what, 64), 1);
}

TEST(OverlapCost, SmallMatmulsAreNotCut) {
  MachineFigures machine = kIdeal;
  machine.halfRows = 512;
  EXPECT_EQ(chooseChunks(machine, {8, 64, 1, 0}, 64), 1);
  EXPECT_GT(chooseChunks(machine, {8, 1 << 20, 8, 0}, 64), 1);
}

TEST(OverlapCost, WhatIsHiddenInAnyCaseNeedsNoChunks) {
  MachineFigures machine = kIdeal;
  machine.latency = 0.2;
  EXPECT_GT(chooseChunks(machine, {8, 64, 2, 0}, 64), 1);
  EXPECT_EQ(chooseChunks(machine, {8, 64, 2, /*independent=*/10}, 64), 1);
}

TEST(OverlapCost, NothingRunsBesideOnCoresThatCommunicate) {
  OverlapCase what{1, 1 << 20, 1, 0};
  EXPECT_EQ(chooseChunks(findMachine("cpu"), what, 64), 1);
  EXPECT_GT(chooseChunks(findMachine("cuda"), what, 64), 1);
}

} // namespace
