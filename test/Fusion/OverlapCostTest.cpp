// Tests when splitting a collective and its matmul into chunks is faster.
#include "lib/Fusion/OverlapCost.h"
#include <gtest/gtest.h>

using namespace parashard::fusion;

namespace {

/// Machine without latency that hides collectives completely.
constexpr MachineFigures kIdeal{1, 1, 1, 1, /*latency=*/0, /*halfRows=*/0, /*overlap=*/1};

TEST(OverlapCost, OverlapOfEqualTimesSavesAtMostHalf) {
  OverlapCase overlapCase{/*matmul=*/8, /*rows=*/64, /*transfer=*/8, /*independent=*/0};
  EXPECT_DOUBLE_EQ(getOverlapTime(kIdeal, overlapCase, 1), 16);
  EXPECT_DOUBLE_EQ(getOverlapTime(kIdeal, overlapCase, 2), 12);
  EXPECT_DOUBLE_EQ(getOverlapTime(kIdeal, overlapCase, 8), 9);
  EXPECT_EQ(chooseChunks(kIdeal, overlapCase, 64), 16);
  EXPECT_EQ(chooseChunks(kIdeal, overlapCase, 6), 6);
  EXPECT_EQ(chooseChunks(kIdeal, overlapCase, 1), 1);
}

TEST(OverlapCost, LatencyBoundsTheChunks) {
  MachineFigures machine = kIdeal;
  OverlapCase overlapCase{8, 64, 8, 0};
  machine.latency = 1;
  int64_t count = chooseChunks(machine, overlapCase, 64);
  EXPECT_GT(count, 1);
  EXPECT_LT(count, 16);
  machine.latency = 100;
  EXPECT_EQ(chooseChunks(machine, overlapCase, 64), 1);
}

TEST(OverlapCost, SmallMatmulsAreNotSplit) {
  MachineFigures machine = kIdeal;
  machine.halfRows = 512;
  EXPECT_EQ(chooseChunks(machine, {8, 64, 1, 0}, 64), 1);
  EXPECT_GT(chooseChunks(machine, {8, 1 << 20, 8, 0}, 64), 1);
}

TEST(OverlapCost, TransfersHiddenByIndependentWorkAreNotSplit) {
  MachineFigures machine = kIdeal;
  machine.latency = 0.2;
  EXPECT_GT(chooseChunks(machine, {8, 64, 2, 0}, 64), 1);
  EXPECT_EQ(chooseChunks(machine, {8, 64, 2, /*independent=*/10}, 64), 1);
}

TEST(OverlapCost, CpusDoNotOverlapBecauseTheirCoresCommunicate) {
  OverlapCase overlapCase{1, 1 << 20, 1, 0};
  EXPECT_EQ(chooseChunks(findMachine("cpu"), overlapCase, 64), 1);
  EXPECT_GT(chooseChunks(findMachine("cuda"), overlapCase, 64), 1);
}

} // namespace
