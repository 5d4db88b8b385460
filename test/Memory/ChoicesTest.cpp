// Tests the choice of saved and recomputed values against an exhaustive search on small random
// graphs.
#include "lib/Memory/ChoiceFrontier.h"
#include "lib/Memory/PointSearch.h"
#include "lib/Memory/SegmentChoices.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <random>

using namespace parashard;
using namespace parashard::memory;

namespace {
/// Returns a random graph whose ops use one or two recent values. Backward uses two of three
/// values.
SegmentGraph makeGraph(std::mt19937 &random, int ops) {
  SegmentGraph graph;
  graph.values.push_back({0, -1, false});
  for (int i = 0; i < ops; ++i) {
    SegmentGraph::Op op;
    op.cost = random() % 4 ? random() % 20 + 1 : random() % 400 + 100;
    op.canRunAgain = random() % 8 != 0;
    int last = graph.values.size() - 1;
    for (int n = random() % 2; n >= 0; --n)
      op.operands.push_back(std::max<int>(0, last - random() % 4));
    for (int n = random() % 6 == 0; n >= 0; --n) {
      op.results.push_back(graph.values.size());
      graph.values.push_back({int64_t(random() % 64 + 1) * 64, i, random() % 3 != 0});
    }
    graph.ops.push_back(std::move(op));
  }
  return graph;
}

/// Returns the Pareto frontier of a graph by evaluating every set of recomputed ops: ascending
/// bytes, descending cost.
std::vector<SegmentChoice> tryAll(const SegmentGraph &graph) {
  std::vector<SegmentChoice> all;
  for (uint64_t set = 0; set < uint64_t(1) << graph.ops.size(); ++set) {
    std::vector<char> allowed;
    for (size_t i = 0; i < graph.ops.size(); ++i)
      allowed.push_back(set >> i & 1);
    all.push_back(evaluateChoice(graph, allowed));
  }
  std::sort(all.begin(), all.end(), [](const SegmentChoice &a, const SegmentChoice &b) {
    return std::pair(a.bytes, a.cost) < std::pair(b.bytes, b.cost);
  });
  std::vector<SegmentChoice> best;
  for (SegmentChoice &choice : all)
    if (best.empty() || choice.cost < best.back().cost)
      best.push_back(std::move(choice));
  return best;
}

/// Returns the cost of the cheapest point that fits in `bytes`, or -1 if none fits.
template <typename T> int64_t costWithin(const std::vector<T> &points, int64_t bytes) {
  int64_t cost = -1;
  for (const T &point : points)
    if (point.bytes <= bytes)
      cost = point.cost;
  return cost;
}

/// Returns the largest cost ratio of `points` to `best` over 41 budgets.
template <typename T>
double worstRatio(const std::vector<T> &points, const std::vector<FrontierPoint> &best) {
  double worst = 1;
  int64_t least = best.front().bytes, most = best.back().bytes;
  for (int i = 0; i <= 40; ++i) {
    int64_t budget = least + (most - least) * i / 40;
    int64_t mine = costWithin(points, budget), theirs = costWithin(best, budget);
    EXPECT_GE(mine, theirs);
    if (theirs > 0)
      worst = std::max(worst, double(mine) / double(theirs));
  }
  return worst;
}
} // namespace

TEST(SegmentChoices, UnneededOpsAreNotRecomputed) {
  // Values 0 -> a -> 1 -> b -> 2. Backward uses only value 2.
  SegmentGraph graph{{{10, true, {0}, {1}}, {5, true, {1}, {2}}},
                     {{0, -1, false}, {64, 0, false}, {64, 1, true}}};
  EXPECT_EQ(evaluateChoice(graph, {1, 0}).cost, 0);
  EXPECT_EQ(evaluateChoice(graph, {1, 0}).bytes, 64);
  EXPECT_EQ(evaluateChoice(graph, {0, 1}).bytes, 64) << "value 1 is saved and b runs again";
  EXPECT_EQ(evaluateChoice(graph, {1, 1}).bytes, 0);
  EXPECT_EQ(evaluateChoice(graph, {1, 1}).cost, 15);
}

TEST(SegmentChoices, OpsThatMustNotRunAgainHaveTheirResultsSaved) {
  SegmentGraph graph{{{10, false, {0}, {1}}, {5, true, {1}, {2}}},
                     {{0, -1, false}, {64, 0, true}, {128, 1, true}}};
  std::vector<SegmentChoice> choices = findChoices(graph);
  ASSERT_EQ(choices.size(), 2u);
  EXPECT_EQ(choices[0].bytes, 64);
  EXPECT_EQ(choices[0].cost, 5);
  EXPECT_EQ(choices[1].bytes, 192);
}

TEST(SegmentChoices, ASmallValueThatBackwardDoesNotUseIsSavedInsteadOfLargeOnes) {
  // An expensive op computes a small value, from which cheap ops compute large values.
  SegmentGraph graph{{{1000, true, {0}, {1}}, {1, true, {1}, {2}}, {1, true, {1}, {3}}},
                     {{0, -1, false}, {64, 0, false}, {640, 1, true}, {640, 2, true}}};
  std::vector<SegmentChoice> choices = findChoices(graph);
  EXPECT_EQ(costWithin(choices, 64), 2);
}

TEST(SegmentChoices, LargeGraphsAreWithinFivePercentOfTheOptimum) {
  double worst = 1;
  for (int seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    SegmentGraph graph = makeGraph(random, 16);
    std::vector<SegmentChoice> exact = tryAll(graph);
    std::vector<FrontierPoint> best = findFrontier({{&exact, 1}});
    worst = std::max(worst, worstRatio(findChoices(graph), best));
  }
  EXPECT_LE(worst, 1.05);
}

TEST(ChoiceFrontier, WithinFivePercentOfTheOptimum) {
  double worst = 1;
  for (int seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    // Two equal segments and a different one.
    SegmentGraph a = makeGraph(random, 15), b = makeGraph(random, 10);
    std::vector<SegmentChoice> exactA = tryAll(a), exactB = tryAll(b);
    std::vector<FrontierPoint> best =
        findFrontier({{&exactA, 2}, {&exactA, 2}, {&exactB, 1}}, SIZE_MAX);
    std::vector<SegmentChoice> foundA = findChoices(a), foundB = findChoices(b);
    std::vector<FrontierPoint> found = findFrontier({{&foundA, 2}, {&foundA, 2}, {&foundB, 1}});
    worst = std::max(worst, worstRatio(found, best));
  }
  EXPECT_LE(worst, 1.05);
}

TEST(ChoiceFrontier, WeightedSegmentsSolveTheKnapsack) {
  std::mt19937 random(3);
  std::vector<std::vector<SegmentChoice>> kinds;
  for (int i = 0; i < 4; ++i)
    kinds.push_back(findChoices(makeGraph(random, 5)));
  std::vector<WeighedSegment> segments;
  for (auto [i, kind] : llvm::enumerate(kinds))
    segments.push_back({&kind, int64_t(i) % 3});
  for (const FrontierPoint &point : findFrontier(segments)) {
    int64_t bytes = 0, cost = 0;
    for (size_t i = 0; i < 4; ++i) {
      bytes += segments[i].weight * kinds[i][point.picks[i]].bytes;
      cost += kinds[i][point.picks[i]].cost;
    }
    EXPECT_EQ(bytes, point.bytes);
    EXPECT_EQ(cost, point.cost);
    // No other combination within the same bytes is cheaper.
    for (const SegmentChoice &a : kinds[0])
      for (const SegmentChoice &b : kinds[1])
        for (const SegmentChoice &c : kinds[2])
          for (const SegmentChoice &d : kinds[3])
            if (b.bytes + 2 * c.bytes <= point.bytes) {
              EXPECT_GE(a.cost + b.cost + c.cost + d.cost, point.cost);
            }
  }
}

TEST(ChoiceFrontier, EarlierSegmentsSaveLessThanEqualLaterOnes) {
  std::vector<SegmentChoice> choices(2);
  choices[0] = {10, 5, {}};
  choices[1] = {100, 0, {}};
  std::vector<FrontierPoint> points = findFrontier({{&choices, 1}, {&choices, 1}, {&choices, 1}});
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(points[1].picks, (std::vector<int>{0, 0, 1}));
}

TEST(ChoiceFrontier, ManyLayersGiveFewPoints) {
  std::mt19937 random(7);
  std::vector<SegmentChoice> choices = findChoices(makeGraph(random, 40));
  std::vector<WeighedSegment> segments(96, WeighedSegment{&choices, 3});
  std::vector<FrontierPoint> points = findFrontier(segments, 512);
  EXPECT_LE(points.size(), 514u);
  EXPECT_EQ(points.back().cost, 0);
  EXPECT_EQ(points.front().bytes, 96 * 3 * choices.front().bytes);
}

TEST(PointSearch, FindsTheLargestPointThatFits) {
  std::vector<int64_t> bytes;
  for (int i = 0; i < 3000; ++i)
    bytes.push_back(i * 1000);
  // The peak is at one of two moments. One always needs 1500000 bytes; the other depends on the
  // choice.
  auto getPeak = [&](size_t i) { return std::max<int64_t>(1500000, 700000 + bytes[i]); };
  for (int64_t budget : {1500001, 1600000, 2500000, 3699000}) {
    PointSearch search(bytes, budget, getPeak(2999));
    int measured = 0;
    while (std::optional<size_t> next = search.getNext()) {
      search.record(*next, getPeak(*next));
      ++measured;
    }
    ASSERT_TRUE(search.getBest());
    EXPECT_LE(getPeak(*search.getBest()), budget);
    EXPECT_GE(getPeak(*search.getBest()), budget - budget / 100);
    EXPECT_LE(measured, 12);
  }
}

TEST(PointSearch, ReturnsNulloptIfNothingFits) {
  PointSearch search({0, 10, 20}, 50, 90);
  ASSERT_EQ(search.getNext(), 0u);
  search.record(0, 60);
  EXPECT_EQ(search.getNext(), std::nullopt);
  EXPECT_EQ(search.getBest(), std::nullopt);
}
