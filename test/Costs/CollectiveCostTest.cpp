// Tests the prices of collectives: values computed by hand, and laws that hold for every cluster.
#include "lib/Costs/CollectiveCost.h"
#include <gtest/gtest.h>
#include <random>

using namespace parashard::costs;

namespace {

/// Returns a cluster with nodes of 8 ranks: 100 GB/s within a node, and 10 GB/s between nodes.
Cluster makeCluster(double latency = 0) {
  Cluster cluster;
  cluster.tiers = {{"node", 8, 100e9, latency}, {"network", 0, 10e9, 2 * latency}};
  return cluster;
}

constexpr Collective kCollectives[] = {Collective::AllReduce, Collective::AllGather,
                                       Collective::ReduceScatter, Collective::AllToAll,
                                       Collective::Permute};

TEST(CountMembers, FollowStridesOverTiers) {
  std::vector<Tier> tiers = {{"node", 4, 1, 0}, {"rack", 8, 1, 0}, {"all", 0, 1, 0}};
  using Counts = llvm::SmallVector<int64_t, 3>;
  EXPECT_EQ(countMembers({{2, 4}}, tiers), (Counts{2, 4, 4}));
  EXPECT_EQ(countMembers({{1, 4}}, tiers), (Counts{4, 4, 4}));
  EXPECT_EQ(countMembers({{8, 2}}, tiers), (Counts{1, 1, 2}));
  EXPECT_EQ(countMembers({{1, 2}, {8, 4}}, tiers), (Counts{2, 2, 8}));
}

TEST(CollectiveCost, RingInsideAnIsland) {
  // Each of 8 ranks sends 2 * 7/8 of 8 GB at 100 GB/s.
  EXPECT_DOUBLE_EQ(getSeconds(makeCluster(), Collective::AllReduce, {{1, 8}}, 8e9), 0.14);
  EXPECT_DOUBLE_EQ(getSeconds(makeCluster(), Collective::AllGather, {{1, 8}}, 8e9), 0.07);
  EXPECT_DOUBLE_EQ(getSeconds(makeCluster(), Collective::AllToAll, {{1, 8}}, 8e9), 0.07);
  EXPECT_DOUBLE_EQ(getSeconds(makeCluster(), Collective::Permute, {{1, 8}}, 8e9), 0.08);
}

TEST(CollectiveCost, MembersOfANodeUseAllItsLinks) {
  // A group of 16 consecutive ranks uses 8 links of 10 GB/s per node. A group of every eighth rank
  // uses one link per node.
  EXPECT_DOUBLE_EQ(getSeconds(makeCluster(), Collective::AllGather, {{1, 16}}, 16e9), 15e9 / 80e9);
  EXPECT_DOUBLE_EQ(getSeconds(makeCluster(), Collective::AllGather, {{8, 2}}, 16e9), 8e9 / 10e9);
}

TEST(CollectiveCost, SmallMessagesTakeFewSteps) {
  // A tree over 8 ranks takes 2 * 3 steps, a ring 2 * 7.
  double seconds = getSeconds(makeCluster(1e-6), Collective::AllReduce, {{1, 8}}, 1);
  EXPECT_NEAR(seconds, 6e-6, 1e-9);
}

TEST(CollectiveCost, ZeroBytesOrOneRankCostNothing) {
  for (Collective collective : kCollectives) {
    EXPECT_EQ(getSeconds(makeCluster(1e-6), collective, {{1, 1}}, 1e9), 0);
    EXPECT_EQ(getSeconds(makeCluster(1e-6), collective, {{1, 8}}, 0), 0);
  }
}

TEST(CollectiveCost, MeasurementsOfEqualGroupsTakePrecedence) {
  Cluster cluster = makeCluster();
  cluster.measured["all_reduce"] = {{8, 1e6, 80e-6}, {8, 4e6, 160e-6}};
  auto price = [&](const Group &group, double bytes) {
    return getSeconds(cluster, Collective::AllReduce, group, bytes);
  };
  EXPECT_DOUBLE_EQ(price({{1, 8}}, 1e6), 80e-6);
  EXPECT_DOUBLE_EQ(price({{1, 8}}, 1), 80e-6);
  EXPECT_NEAR(price({{1, 8}}, 2e6), 80e-6 * std::sqrt(2), 1e-9);
  EXPECT_DOUBLE_EQ(price({{1, 8}}, 8e6), 320e-6);
  EXPECT_DOUBLE_EQ(price({{1, 4}}, 1e6),
                   getSeconds(makeCluster(), Collective::AllReduce, {{1, 4}}, 1e6));
}

// Laws: faster links, shorter latencies and fewer bytes never cost more. A group written as two
// axes costs the same as the same group written as one axis.
TEST(CollectiveCost, LawsHoldForRandomClusters) {
  std::mt19937 random(28);
  auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
  };
  for (int trial = 0; trial < 2000; ++trial) {
    Cluster cluster;
    int64_t node = 1 << (random() % 4), rack = node << (1 + random() % 3);
    cluster.tiers = {{"node", node, draw(1e9, 1e12), draw(1e-7, 1e-4)},
                     {"rack", rack, draw(1e9, 1e12), draw(1e-7, 1e-4)},
                     {"all", 0, draw(1e9, 1e12), draw(1e-7, 1e-4)}};
    int64_t stride = 1 << (random() % 5), size = 1 << (1 + random() % 6);
    double bytes = draw(1, 1e10);
    for (Collective collective : kCollectives) {
      double seconds = getSeconds(cluster, collective, {{stride, size}}, bytes);
      EXPECT_GT(seconds, 0);
      EXPECT_LE(getSeconds(cluster, collective, {{stride, size}}, bytes / 2), seconds);
      if (size > 2)
        EXPECT_DOUBLE_EQ(
            getSeconds(cluster, collective, {{stride, 2}, {2 * stride, size / 2}}, bytes), seconds);
      for (size_t t = 0; t < 3; ++t) {
        Cluster faster = cluster;
        faster.tiers[t].bandwidth *= 2;
        faster.tiers[t].latency /= 2;
        EXPECT_LE(getSeconds(faster, collective, {{stride, size}}, bytes), seconds) << trial;
      }
    }
  }
}

} // namespace
