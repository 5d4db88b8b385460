// Tests first fit: buffers that are live at the same time never overlap, and dead buffers are
// reused.
#include "lib/Memory/FirstFit.h"
#include "gtest/gtest.h"
#include <random>

using namespace parashard;
using namespace parashard::memory;

TEST(FirstFit, BuffersOfDisjointLifetimesShare) {
  MemoryPlan plan = placeByFirstFit({{0, 1, 100}, {2, 3, 100}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 128);
}

TEST(FirstFit, EndsAreIncluded) {
  MemoryPlan plan = placeByFirstFit({{0, 2, 64}, {2, 3, 64}});
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.bytes, 128);
}

TEST(FirstFit, TheLowestGapThatFitsIsTaken) {
  MemoryPlan plan = placeByFirstFit({{0, 0, 128}, {0, 9, 64}, {1, 9, 64}, {2, 9, 64}});
  EXPECT_EQ(plan.offsets[1], 128);
  EXPECT_EQ(plan.offsets[2], 0);
  EXPECT_EQ(plan.offsets[3], 64);
}

TEST(FirstFit, TriesAnotherOrderIfTheOrderOfStartsLeavesGaps) {
  // In the order of their starts, only 128 bytes are free below the second buffer when 192 are
  // needed.
  std::vector<Lifetime> buffers = {{0, 0, 128}, {0, 9, 64}, {1, 9, 192}, {2, 9, 64}};
  EXPECT_EQ(getLargestSum(buffers), 320);
  EXPECT_EQ(placeByFirstFit(buffers).bytes, 320);
}

TEST(FirstFit, AStepOfLayersNeedsAtMostTwoPercentMoreThanTheLowerBound) {
  // Forward saves values of several sizes for backward, which runs the layers in reverse.
  std::mt19937 random(5);
  std::vector<Lifetime> buffers;
  constexpr int64_t kLayers = 24;
  for (int64_t layer = 0; layer < kLayers; ++layer)
    for (int64_t i = 0; i < 8; ++i) {
      int64_t begin = layer * 8 + i, end = 2 * kLayers * 8 - layer * 8 - i;
      buffers.push_back({begin, end, int64_t(random() % 4 + 1) * 4096});
      buffers.push_back({begin, begin + 2, int64_t(random() % 16 + 1) * 4096});
      buffers.push_back({end - 2, end, int64_t(random() % 16 + 1) * 4096});
    }
  int64_t least = getLargestSum(buffers);
  EXPECT_GE(placeByFirstFit(buffers).bytes, least);
  EXPECT_LE(placeByFirstFit(buffers).bytes, least * 102 / 100);
}

TEST(FirstFit, EmptyBuffersTakeNoBytes) { EXPECT_EQ(placeByFirstFit({{0, 1, 0}}).bytes, 0); }

TEST(FirstFit, RandomBuffersAliveTogetherDoNotOverlap) {
  std::mt19937 random(7);
  std::vector<Lifetime> buffers(300);
  for (Lifetime &buffer : buffers) {
    buffer.begin = random() % 100;
    buffer.end = buffer.begin + random() % 20;
    buffer.bytes = random() % 1000 + 1;
  }
  MemoryPlan plan = placeByFirstFit(buffers);
  for (size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % kBufferAlignment, 0);
    EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.bytes);
    for (size_t b = 0; b < a; ++b) {
      bool together = buffers[a].begin <= buffers[b].end && buffers[b].begin <= buffers[a].end;
      bool apart = plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
                   plan.offsets[b] + buffers[b].bytes <= plan.offsets[a];
      EXPECT_TRUE(!together || apart) << a << " and " << b;
    }
  }
}
