// Tests how psrt-probe derives the figures of a cluster file from measurements. The measurements
// are constants.
#include "runtime/probe/ClusterFile.h"
#include "runtime/probe/CoreUse.h"
#include "runtime/probe/Fit.h"
#include "runtime/probe/RunSpread.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace psrt;

TEST(Fit, MedianOfOddAndEvenNumbers) {
  EXPECT_EQ(findMedian({5, 1, 3}), 3);
  EXPECT_EQ(findMedian({4, 1, 3, 100}), 3.5);
}

TEST(Fit, EachDecadeHasTheMedianOfItsShares) {
  // Rates in flops per second: 20, 40 and 50 in the first decade, 100 and 60 in the second.
  FittedRate rate = fitRate({{2e6, 1e5}, {4e6, 1e5}, {5e6, 1e5}, {2e7, 2e5}, {5e7, 5e7 / 60}});
  EXPECT_DOUBLE_EQ(rate.peak, 100);
  ASSERT_EQ(rate.efficiency.size(), 2u);
  EXPECT_DOUBLE_EQ(rate.efficiency[0].share, 0.4);
  EXPECT_NEAR(rate.efficiency[0].flops, std::cbrt(40) * 1e6, 1);
  EXPECT_DOUBLE_EQ(rate.efficiency[1].share, 0.8);
  EXPECT_NEAR(rate.efficiency[1].flops, std::sqrt(10) * 1e7, 1);
}

TEST(Fit, ALinkWithoutNoiseIsFound) {
  std::vector<Sample> samples;
  for (double bytes : {1e3, 3e4, 1e6, 8e6, 6e7})
    samples.push_back({bytes, 50e-6 + bytes / 2e9});
  FittedLink link = fitLink(samples);
  EXPECT_NEAR(link.latency, 50e-6, 1e-7);
  EXPECT_NEAR(link.bandwidth, 2e9, 2e6);
}

TEST(Fit, ALinkIsFoundBetweenNoisyTimes) {
  std::vector<Sample> samples;
  double noise = 1.2;
  for (double bytes : {1e3, 3e4, 1e6, 8e6, 6e7}) {
    samples.push_back({bytes, (50e-6 + bytes / 2e9) * noise});
    noise = 1 / noise;
  }
  FittedLink link = fitLink(samples);
  EXPECT_NEAR(link.latency, 50e-6, 15e-6);
  EXPECT_NEAR(link.bandwidth, 2e9, 0.5e9);
}

TEST(Fit, MessagesOfOneSizeGiveABandwidth) {
  FittedLink link = fitLink({{1e6, 1e-3}, {1e6, 1e-3}});
  EXPECT_EQ(link.latency, 0);
  EXPECT_DOUBLE_EQ(link.bandwidth, 1e9);
}

TEST(Fit, TimesDoNotFallWithMoreWork) {
  std::vector<Sample> samples = {{32, 4}, {1, 5}, {64, 9}};
  makeAscending(samples);
  ASSERT_EQ(samples.size(), 3u);
  EXPECT_EQ(samples[0].seconds, 5);
  EXPECT_EQ(samples[1].seconds, 5);
  EXPECT_EQ(samples[2].seconds, 9);
}

TEST(Fit, SlowdownIsBetweenBothAtOnceAndOneAfterTheOther) {
  EXPECT_DOUBLE_EQ(fitSlowdown(3, 2, 3), 1);
  EXPECT_DOUBLE_EQ(fitSlowdown(3, 2, 4), 1.5);
  EXPECT_DOUBLE_EQ(fitSlowdown(2, 3, 5), 2);
  EXPECT_DOUBLE_EQ(fitSlowdown(3, 2, 7), 2);
  EXPECT_DOUBLE_EQ(fitSlowdown(3, 2, 2.9), 1);
}

TEST(RunSpread, TheFastestRunOfEachMeasurementCounts) {
  RunSpread spread;
  EXPECT_EQ(spread.getShare(), 0);
  spread.add({1, 1, 1, 1, 2}, 1);
  EXPECT_DOUBLE_EQ(spread.getShare(), 0.2);
  spread.add({2, 2, 2, 2, 2}, 10); // equally fast samples; each is the mean of ten runs
  EXPECT_DOUBLE_EQ(spread.getShare(), 106. / 105 - 1);
}

TEST(RunSpread, FewRunsTellNothing) {
  RunSpread spread;
  spread.add({1, 3, 9, 27}, 1);
  EXPECT_EQ(spread.getShare(), 0);
}

TEST(RunSpread, AddsOtherProcesses) {
  RunSpread spread, other;
  spread.add({1, 1, 1, 1, 1}, 1);
  other.add({1, 1, 1, 1, 6}, 1);
  spread.merge(other.print());
  EXPECT_DOUBLE_EQ(spread.getShare(), 0.5);
  spread.merge("");
  EXPECT_DOUBLE_EQ(spread.getShare(), 0.5);
}

TEST(RunSpread, ADisturbedMachineIsDescribed) {
  RunSpread quiet, busy;
  quiet.add({1, 1.1, 1.2, 1.3, 1.4}, 1);
  EXPECT_EQ(quiet.describeDisturbance(), std::nullopt);
  // Two of five runs were interrupted. The median is still that of a quiet machine.
  busy.add({1, 1, 1, 2, 2.25}, 1);
  EXPECT_EQ(busy.describeDisturbance(), "other programs seem to have used the machine: repeated "
                                        "matmuls took 45 % longer than the fastest "
                                        "ones");
}

TEST(CoreUse, ReadsTheTicksOfTheHost) {
  std::istringstream stat("cpu  300 50 100 5000 70 1 2 3 4 5\ncpu0 300 0 100 0 0 0 0 0 0 0\n"
                          "cpu1 0 50 0 5000 70 1 2 3 4 5\nintr 17\n");
  CoreUse use = parseStat(stat, 100);
  EXPECT_DOUBLE_EQ(use.busy, 4.56); // excludes idle and iowait; guest time is part of user time
  EXPECT_EQ(use.cores, 2);
}

TEST(CoreUse, OtherProgramsAreDescribedIfTheRanksNeedTheirCores) {
  // On two cores in 10 s, the ranks used 8 s of core time, and all programs together used 19 s.
  CoreUse use{10, 19, 8, 2};
  EXPECT_EQ(describeOthers({use}, 2), "other programs used 1.1 of 2 cores");
  EXPECT_EQ(describeOthers({{10, 19, 4, 2}, {10, 19, 4, 2}}, 2),
            "other programs used 1.1 of 2 cores");
  EXPECT_EQ(describeOthers({use}, 8), "other programs used 1.1 of 2 cores");
  use.cores = 4; // two of four cores were free
  EXPECT_EQ(describeOthers({use}, 2), std::nullopt);
  EXPECT_EQ(describeOthers({use}, 4), "other programs used 1.1 of 4 cores");
}

TEST(CoreUse, AnIdleMachineAndAnUnknownOneAreNotDescribed) {
  EXPECT_EQ(describeOthers({{10, 20, 19, 2}}, 2), std::nullopt);
  EXPECT_EQ(describeOthers({{10, 19, 8, 0}}, 2), std::nullopt);
  EXPECT_EQ(describeOthers({}, 2), std::nullopt);
  EXPECT_EQ(parseCoreUse("1 2 3 x").cores, 0);
}

TEST(CoreUse, PassesToAnotherProcess) {
  CoreUse use = parseCoreUse(print({10, 19, 8, 2}));
  EXPECT_EQ(describeOthers({use}, 2), "other programs used 1.1 of 2 cores");
  use = subtract({15, 20, 9, 2}, {5, 1, 1, 2});
  EXPECT_EQ(describeOthers({use}, 2), "other programs used 1.1 of 2 cores");
}

TEST(Fit, QuantitiesAreThoseOfClusterFiles) {
  EXPECT_EQ(printQuantity(3.35e12, "B/s"), "3.35TB/s");
  EXPECT_EQ(printQuantity(8e10, "B"), "80GB");
  EXPECT_EQ(printQuantity(7.9e-5, "s"), "79us");
  EXPECT_EQ(printQuantity(4.1e-8, "s"), "41ns");
  EXPECT_EQ(printQuantity(1.25, "s"), "1.25s");
  EXPECT_EQ(printQuantity(0, "s"), "0ns");
  EXPECT_EQ(printQuantity(999999999, "B/s"), "1GB/s");
  EXPECT_EQ(printBytes(1024), "1KiB");
  EXPECT_EQ(printBytes(64 << 20), "64MiB");
  EXPECT_EQ(printBytes(1020), "1020B");
}

namespace {

/// Returns the measurements of a ProbePlan, each with a rate of 1 GFLOP/s or 1 GB/s.
std::vector<Probe> measureAll(const RankLayout &layout) {
  std::vector<Probe> probes = planProbes(layout, Target(), "0", 64 << 20).probes;
  for (Probe &probe : probes)
    probe.seconds = probe.work / 1e9;
  return probes;
}

nlohmann::json writeFile(const RankLayout &layout, const std::vector<Probe> &probes) {
  return nlohmann::json::parse(
      printCluster(probes, layout, Target(), {"host", "a \"CPU\"", 8e9}, "2026-11-26"));
}

} // namespace

TEST(ClusterFile, HasEveryFigure) {
  RankLayout layout{2, 4};
  nlohmann::json file = writeFile(layout, measureAll(layout));
  EXPECT_EQ(file["source"], "psrt-probe, 2026-11-26, host, a \"CPU\", 8 ranks");
  const nlohmann::json &device = file["device"];
  EXPECT_EQ(device["memory"], "8GB");
  EXPECT_EQ(device["reserve"], "800MB");
  EXPECT_EQ(device["memory_bandwidth"], "1GB/s");
  EXPECT_EQ(device["elementwise_efficiency"], 1);
  EXPECT_EQ(device["attention_forward"], 1);
  for (const char *type : {"f32", "bf16", "f16"}) {
    EXPECT_EQ(device["matmul"][type]["peak"], "1GFLOP/s");
    EXPECT_EQ(device["matmul"][type]["efficiency"].size(), 5u); // 1e5 to 1e10 flops
  }
  EXPECT_EQ(file["tiers"][0]["ranks"], 4);
  EXPECT_EQ(file["tiers"][0]["bandwidth"], "1GB/s");
  EXPECT_EQ(file["tiers"][1]["name"], "network");
  EXPECT_FALSE(file["tiers"][1].contains("ranks"));
  EXPECT_EQ(file["measured"]["all_reduce"].size(), 10u); // 2 and 4 ranks, 5 sizes
}

TEST(ClusterFile, TheSourceHasTheNote) {
  RankLayout layout{1, 2};
  nlohmann::json file = nlohmann::json::parse(printCluster(
      measureAll(layout), layout, Target(), {"host", "CPU", 8e9}, "2026-11-26", "a note"));
  EXPECT_EQ(file["source"], "psrt-probe, 2026-11-26, host, CPU, 2 ranks; a note");
}

TEST(ClusterFile, OmitsWhatWasNotMeasured) {
  RankLayout layout{1, 2};
  std::vector<Probe> probes = measureAll(layout);
  for (Probe &probe : probes)
    if (probe.work > 1e8 || probe.name == "f16")
      probe.seconds = 0;
  nlohmann::json file = writeFile(layout, probes);
  EXPECT_FALSE(file["device"]["matmul"].contains("f16"));
  EXPECT_EQ(file["device"]["matmul"]["f32"]["efficiency"].size(), 3u);
  EXPECT_EQ(file["tiers"].size(), 1u);
}

TEST(ClusterFile, OneRankHasNoCollectives) {
  RankLayout layout{1, 1};
  nlohmann::json file = writeFile(layout, measureAll(layout));
  EXPECT_FALSE(file.contains("measured"));
  EXPECT_FALSE(file.contains("overlap_slowdown"));
  EXPECT_EQ(file["tiers"][0]["ranks"], 1);
}

TEST(ProbePlan, GroupsHavePowersOfTwoAndAllRanks) {
  std::set<int64_t> ranks;
  for (const Probe &probe : planProbes({1, 12}, Target(), "0", 64 << 20).probes)
    if (probe.figure == Figure::Collective)
      ranks.insert(probe.ranks);
  EXPECT_EQ(ranks, (std::set<int64_t>{2, 4, 12}));
}

TEST(ProbePlan, TheProgramIsValid) {
  for (const char *target : {"cpu", "cuda:sm_90", "cuda:replay"})
    for (RankLayout layout : {RankLayout{1, 1}, {1, 6}, {3, 4}}) {
      ProbePlan plan = planProbes(layout, parseTarget(target), "0", 16 << 20);
      Program program = parseProgram(plan.table);
      EXPECT_EQ(program.mesh.size(), layout.size());
      size_t end = program.entries.at(0).programs.at(0).code.size();
      for (const Probe &probe : plan.probes)
        EXPECT_LE(probe.code.last, end);
    }
}
