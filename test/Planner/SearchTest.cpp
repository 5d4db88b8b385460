// Compares the search with all plans of small random problems, and checks laws of its prices.
#include "lib/Planner/Search.h"
#include "lib/Schedules/PipelineSchedule.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace parashard;
using namespace parashard::planner;

namespace {

/// An artificial model: seconds and bytes per segment as functions of the axes.
struct Model {
  std::vector<double> work; ///< seconds per sample on one rank, for each segment
  double overhead = 0;      ///< seconds of launches per segment and phase
  double exchange = 0;      ///< seconds per segment and sample, times log2(tp)
  double parameters = 0, saved = 0;

  ClassTable makeTable(const Candidate &candidate) const {
    double samples = double(candidate.samples), shards = double(candidate.tp);
    double again = candidate.recompute == "none" ? 0 : candidate.recompute == "full" ? 1 : 0.1;
    double kept = candidate.recompute == "none" ? 1 : candidate.recompute == "full" ? 0.1 : 0.5;
    ClassTable table;
    for (double seconds : work) {
      SegmentCost cost;
      for (Breakdown *phase : {&cost.forward, &cost.backwardInput, &cost.backwardWeight}) {
        (*phase)[Part::Matmul] = seconds * samples / shards;
        (*phase)[Part::Launch] = overhead;
      }
      cost.backwardInput[Part::Recomputation] = again * cost.forward[Part::Matmul];
      if (candidate.tp > 1)
        cost.forward[Part::TensorParallel] = exchange * samples * std::log2(shards);
      cost.saved = saved * kept * samples / shards;
      cost.boundary = 1e5 * samples;
      cost.parameters = cost.gradients = parameters / shards;
      cost.states = 2 * parameters / shards;
      cost.update = seconds / shards / (candidate.zero > 0 ? 2 : 1);
      cost.reduction = candidate.dp > 1 ? 1e-4 : 0;
      if (candidate.zero > 2)
        cost.forwardGathers = cost.backwardGathers = 2 * seconds;
      table.segments.push_back(cost);
    }
    return table;
  }
};

struct Problem {
  Model model;
  SearchProblem search;
  ClassTable last;
  mutable CutCache cuts;

  explicit Problem(unsigned seed) {
    std::mt19937 random(seed);
    auto draw = [&](double low, double high) {
      return std::uniform_real_distribution(low, high)(random);
    };
    for (int i = 0, count = 1 + int(random() % 6); i < count; ++i)
      model.work.push_back(draw(1e-3, 3e-3));
    model.overhead = draw(0, 1) < 0.5 ? 0 : draw(0, 5e-4);
    model.exchange = draw(1e-5, 1e-3);
    model.parameters = draw(1e6, 1e8);
    model.saved = draw(1e6, 1e8);
    search.cluster.tiers = {{"node", 4, 1e10, 1e-6}, {"network", 0, 1e9, 1e-5}};
    search.ranks = int64_t(1) << (random() % 4);
    search.globalBatch = search.ranks << (random() % 3);
    search.memory = draw(2e7, 2e9);
    search.timeLimit = 100;
    search.getTable = [this](const Candidate &candidate, const costs::Cluster &) {
      last = model.makeTable(candidate);
      return &last;
    };
    search.getTableShards = [](const Candidate &) { return 2; };
  }

  /// Returns the least seconds of a plan that fits, or infinity if no plan fits.
  double findBest() const {
    double best = std::numeric_limits<double>::infinity();
    for (int64_t pp = 1; pp <= search.ranks; pp *= 2)
      for (int64_t tp = 1; pp * tp <= search.ranks; tp *= 2)
        for (const char *order : {"pdt", "dpt", "ptd", "dtp", "tpd", "tdp"})
          for (int64_t samples = 1; samples <= search.globalBatch; samples *= 2)
            for (const char *recompute : {"none", "selective", "full"})
              for (int64_t zero = 0; zero < 4; ++zero) {
                Candidate candidate;
                candidate.pp = pp, candidate.tp = tp, candidate.dp = search.ranks / pp / tp;
                candidate.order = order;
                candidate.samples = samples;
                candidate.recompute = recompute;
                candidate.zero = zero;
                candidate.microBatches = search.globalBatch / candidate.dp / samples;
                if (candidate.microBatches > 0 && (zero == 0 || candidate.dp > 1))
                  best = std::min(best, findBestSchedule(candidate));
              }
    return best;
  }

  double findBestSchedule(const Candidate &candidate) const {
    double best = std::numeric_limits<double>::infinity();
    LayoutPricer pricer(model.makeTable(candidate), search.cluster, cuts);
    for (const schedules::Schedule &schedule : schedules::getSchedules())
      for (int64_t chunks = schedule.minChunks; chunks <= std::min<int64_t>(schedule.maxChunks, 8);
           ++chunks) {
        if (candidate.pp == 1 && (chunks > 1 || schedule.name != std::string("1f1b")))
          continue;
        Layout layout;
        layout.coordinates = candidate.pp;
        layout.stageStride = candidate.getStride('p');
        layout.shards = candidate.dp;
        layout.chunks = chunks;
        layout.schedule = schedule.name;
        layout.microBatches = candidate.microBatches;
        layout.zero = candidate.zero;
        layout.tableShards = 2;
        llvm::Expected<LayoutPrice> price = pricer.price(layout);
        if (!price)
          llvm::consumeError(price.takeError());
        else if (price->memory <= search.memory)
          best = std::min(best, price->seconds);
      }
    return best;
  }
};

TEST(Search, FindsTheBestOfAllPlans) {
  int feasible = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    Problem problem(seed);
    problem.search.tolerance = 0;
    double best = problem.findBest();
    llvm::Expected<SearchResult> found = search(problem.search);
    ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
    ASSERT_TRUE(found->isComplete);
    ASSERT_EQ(found->plans.empty(), std::isinf(best)) << "seed " << seed;
    if (found->plans.empty()) {
      EXPECT_FALSE(found->leanest.empty());
      continue;
    }
    ++feasible;
    double seconds = found->plans.front().price.seconds;
    EXPECT_NEAR(seconds, best, 1e-6 * best) << "seed " << seed;
    problem.search.tolerance = 0.02;
    SearchResult faster = llvm::cantFail(search(problem.search));
    EXPECT_LE(faster.plans.front().price.seconds, 1.021 * best) << "seed " << seed;
    for (const PricedCandidate &plan : found->plans) {
      EXPECT_LE(plan.price.memory, problem.search.memory);
      EXPECT_TRUE(isAllowed(problem.search, plan.candidate));
    }
  }
  EXPECT_GE(feasible, 150);
}

TEST(Search, PartsSumToTheStep) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Problem problem(seed);
    llvm::Expected<SearchResult> found = search(problem.search);
    ASSERT_TRUE(bool(found));
    for (const PricedCandidate &plan : found->plans)
      EXPECT_NEAR(plan.price.parts.sum(), plan.price.seconds, 1e-9 * plan.price.seconds);
  }
}

TEST(Search, IsNeverSlowerWithMoreMemory) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Problem problem(seed);
    auto getBest = [&] {
      SearchResult found = llvm::cantFail(search(problem.search));
      return found.plans.empty() ? std::numeric_limits<double>::infinity()
                                 : found.plans.front().price.seconds;
    };
    double before = getBest();
    problem.search.memory *= 2;
    EXPECT_LE(getBest(), 1.02 * before);
  }
}

TEST(Search, FollowsItsConstraints) {
  Problem problem(7);
  problem.search.ranks = 8;
  problem.search.globalBatch = 16;
  problem.search.memory = 1e12;
  problem.search.constraints.mesh = llvm::cantFail(parseMeshChoices("tp=2"));
  problem.search.constraints.flags["zero"] = llvm::cantFail(Choices::parse("1"));
  problem.search.constraints.flags["recompute"] = llvm::cantFail(Choices::parse("full"));
  SearchResult found = llvm::cantFail(search(problem.search));
  ASSERT_FALSE(found.plans.empty());
  for (const PricedCandidate &plan : found.plans) {
    EXPECT_EQ(plan.candidate.tp, 2);
    EXPECT_EQ(plan.candidate.zero, 1);
    EXPECT_EQ(plan.candidate.recompute, "full");
  }
}

TEST(Search, SkipsALargeTensorAxisIfASmallerOneIsSlow) {
  Problem problem(0);
  problem.model.work = {1e-3, 1e-3};
  problem.model.overhead = 0;
  // The search tries tp=8 if tp=4 is at most 5 % slower than the best plan. A step takes
  // 3 * work + exchange * tp * log2(tp): 4 % more with tp=4, and at least 8 % more with tp=8.
  problem.model.exchange = 0.005 * 3 * 1e-3;
  problem.search.ranks = problem.search.globalBatch = 8;
  problem.search.memory = 1e12;
  std::set<int64_t> asked;
  problem.search.getTable = [&](const Candidate &candidate, const costs::Cluster &) {
    asked.insert(candidate.tp);
    problem.last = problem.model.makeTable(candidate);
    return &problem.last;
  };
  ASSERT_TRUE(bool(search(problem.search)));
  EXPECT_EQ(asked, (std::set<int64_t>{1, 2, 4}));
}

TEST(ClassTable, GetsTheCostsOfZeroFromTablesWithOtherSamples) {
  auto make = [](double matmuls, double saved, double states, double gathers) {
    ClassTable table;
    SegmentCost &cost = table.segments.emplace_back();
    cost.forward[Part::Matmul] = matmuls;
    cost.saved = saved;
    cost.states = states;
    cost.forwardGathers = gathers;
    return table;
  };
  ClassTable one = make(1, 10, 4, 0), oneDivided = make(1.25, 12, 8, 3), four = make(4, 40, 4, 0);
  llvm::Expected<ClassTable> found = applyZero(four, one, oneDivided);
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  const SegmentCost &cost = found->segments.front();
  EXPECT_DOUBLE_EQ(cost.forward[Part::Matmul], 4.25);
  EXPECT_DOUBLE_EQ(cost.saved, 42);
  EXPECT_DOUBLE_EQ(cost.states, 8);
  EXPECT_DOUBLE_EQ(cost.forwardGathers, 3);

  one.segments.emplace_back();
  EXPECT_FALSE(llvm::errorToBool(applyZero(four, oneDivided, oneDivided).takeError()));
  EXPECT_TRUE(llvm::errorToBool(applyZero(four, one, oneDivided).takeError()));
}

TEST(Search, ErrorNamesTheFixedBatch) {
  Problem problem(7);
  problem.search.ranks = 8;
  problem.search.globalBatch = 16;
  problem.search.fixedBatch = 3;
  llvm::Expected<SearchResult> found = search(problem.search);
  ASSERT_FALSE(bool(found));
  EXPECT_NE(llvm::toString(found.takeError()).find("fixes the samples per micro-batch"),
            std::string::npos);
}

} // namespace
