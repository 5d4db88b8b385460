// Tests when splitting a collective and its matmul into chunks is faster.
#include "lib/Fusion/OverlapCost.h"
#include <gtest/gtest.h>

using namespace parashard::fusion;

namespace {

/// Seconds of a matmul and a collective. Each chunk of the collective adds `latency`.
struct Case {
  double matmul, collective, latency = 0, independent = 0, overlap = 1;
  double slowerChunks = 0; ///< seconds that each chunk of the matmul adds

  template <typename Use> auto with(Use use) const {
    auto chunk = [&](int64_t count) { return matmul / double(count) + slowerChunks; };
    auto transfer = [&](int64_t count) { return collective / double(count) + latency; };
    return use({chunk, transfer, independent, overlap});
  }
  double getTime(int64_t count) const {
    return with([&](const OverlapCase &overlap) { return getOverlapTime(overlap, count); });
  }
  int64_t choose(int64_t size) const {
    return with([&](const OverlapCase &overlap) { return chooseChunks(overlap, size); });
  }
};

TEST(OverlapCost, OverlapOfEqualTimesSavesAtMostHalf) {
  Case equal{8, 8};
  EXPECT_DOUBLE_EQ(equal.getTime(1), 16);
  EXPECT_DOUBLE_EQ(equal.getTime(2), 12);
  EXPECT_DOUBLE_EQ(equal.getTime(8), 9);
  EXPECT_EQ(equal.choose(64), 16);
  EXPECT_EQ(equal.choose(6), 6);
  EXPECT_EQ(equal.choose(1), 1);
}

TEST(OverlapCost, LatencyBoundsTheChunks) {
  Case slow{8, 8, /*latency=*/1};
  int64_t count = slow.choose(64);
  EXPECT_GT(count, 1);
  EXPECT_LT(count, 16);
  slow.latency = 100;
  EXPECT_EQ(slow.choose(64), 1);
}

TEST(OverlapCost, MatmulsWhoseChunksAreSlowAreNotSplit) {
  Case small{8, 1};
  EXPECT_GT(small.choose(64), 1);
  small.slowerChunks = 4;
  EXPECT_EQ(small.choose(64), 1);
}

TEST(OverlapCost, TransfersHiddenByIndependentWorkAreNotSplit) {
  Case hidden{8, 2, /*latency=*/0.2};
  EXPECT_GT(hidden.choose(64), 1);
  hidden.independent = 10;
  EXPECT_EQ(hidden.choose(64), 1);
}

TEST(OverlapCost, MatmulsAreNotSplitWithoutOverlap) {
  Case busy{8, 8};
  busy.overlap = 0;
  EXPECT_EQ(busy.choose(64), 1);
}

} // namespace
