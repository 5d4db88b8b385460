// Enumerates meshes and micro-batches, computes lower bounds of their times, and prices the
// candidates whose bounds are good enough.
#include "lib/Planner/Search.h"
#include "lib/Planner/WorkBounds.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "shared/Counts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <chrono>
#include <set>

using namespace llvm;
using namespace parashard::costs;

namespace parashard::planner {

std::string Candidate::getMesh() const {
  std::string mesh;
  for (char axis : order)
    if (int64_t size = getSize(axis); size > 1)
      mesh += (mesh.empty() ? "" : ",") + std::string(1, axis) + "p=" + std::to_string(size);
  return mesh.empty() ? "dp=1" : mesh;
}

int64_t Candidate::getStride(char axis) const {
  int64_t stride = 1;
  for (char other : llvm::reverse(order)) {
    if (other == axis)
      break;
    stride *= getSize(other);
  }
  return stride;
}

double SearchProblem::getMemoryFactor(const Candidate &candidate) const {
  auto factor = memoryFactors.find(candidate.getKind());
  return factor == memoryFactors.end() ? 1 : factor->second;
}

static Layout makeLayout(const SearchProblem &problem, const Candidate &candidate) {
  Layout layout;
  layout.coordinates = candidate.pp;
  layout.stageStride = candidate.getStride('p');
  layout.shards = candidate.dp;
  layout.chunks = candidate.chunks;
  layout.schedule = candidate.schedule;
  layout.microBatches = candidate.microBatches;
  layout.zero = candidate.zero;
  layout.tableShards = problem.getTableShards(candidate);
  return layout;
}

/// Returns true if `order` has the axes of a mesh constraint in the order of the constraint.
static bool followsOrder(const MeshChoices &mesh, StringRef order) {
  size_t last = 0;
  for (const auto &[axis, choices] : mesh.axes) {
    size_t position = order.find(axis[0]);
    if (position < last)
      return false;
    last = position;
  }
  return true;
}

static bool allowsSizes(const MeshChoices &mesh, const Candidate &candidate) {
  return llvm::all_of(mesh.axes, [&](const auto &axis) {
    return axis.second.allows(candidate.getSize(axis.first[0]));
  });
}

namespace {

/// A mesh with its micro-batches and policy, and a lower bound of the time of its step.
struct Branch {
  Candidate candidate;
  double bound = 0;
  ClassTable table; ///< without recomputation and ZeRO
};

/// Plans that take more than this factor times the time of the best plan are not returned.
constexpr double kSlowest = 1.05;
/// Searched policies are tried for a size of the tensor axis in two cases. Either the named
/// policies leave more than the share `kMaxWhole` of the matmuls unsplit, or the best plan has this
/// size. A search is assumed to reduce the time to `kSearchGain` of the named policy's time, even
/// if the named policy splits all matmuls. At most `kMaxSearches` pairs of tensor axis and samples
/// are tried.
constexpr double kMaxWhole = 0.1, kSearchGain = 0.93;
constexpr size_t kMaxSearches = 2;

/// Number of candidates of each kind that are priced to find the one with the least memory, if no
/// plan fits.
constexpr size_t kMaxLeanest = 4;

class Searcher {
public:
  explicit Searcher(const SearchProblem &problem) : problem(problem), cuts(problem.findCuts) {}

  Expected<SearchResult> run() {
    for (int64_t tp : getDivisors(problem.ranks)) {
      std::vector<Branch> branches = listBranches(tp);
      llvm::stable_sort(branches,
                        [](const Branch &a, const Branch &b) { return a.bound < b.bound; });
      // Larger tensor axes are even slower: they communicate more, and their matmuls are smaller.
      if (!branches.empty() && isTooSlow(branches.front().bound))
        break;
      for (const Branch &branch : branches)
        explore(branch);
      if (!result.isComplete)
        break;
      keepForSearch(std::move(branches));
    }
    exploreSearched();
    if (result.plans.empty())
      addLeanest();
    if (result.plans.empty() && result.leanest.empty())
      return createStringError(whyEmpty());
    addKinds();
    return std::move(result);
  }

private:
  using Kind = Candidate::Kind;

  const Constraints &constraints() const { return problem.constraints; }

  /// Returns the divisors of a number in ascending order.
  static SmallVector<int64_t> getDivisors(int64_t number) {
    SmallVector<int64_t> divisors, large;
    for (int64_t d = 1; d * d <= number; ++d)
      if (number % d == 0) {
        divisors.push_back(d);
        if (d * d < number)
          large.push_back(number / d);
      }
    divisors.append(large.rbegin(), large.rend());
    return divisors;
  }

  std::vector<Branch> listBranches(int64_t tp) {
    std::vector<Branch> branches;
    for (int64_t pp : getDivisors(problem.ranks / tp)) {
      Candidate candidate;
      candidate.pp = pp;
      candidate.tp = tp;
      candidate.dp = problem.ranks / pp / tp;
      if (!allowsSizes(constraints().mesh, candidate))
        continue;
      for (const std::string &order : listOrders(candidate)) {
        candidate.order = order;
        addBatches(candidate, branches);
      }
    }
    return branches;
  }

  /// Returns the orders of axes to try. Omits an order if each axis uses the same tiers of the
  /// cluster as in an earlier order. Orders with the tensor axis innermost come first.
  std::vector<std::string> listOrders(Candidate candidate) const {
    std::vector<std::string> orders;
    std::set<std::string> seen;
    for (const char *order : {"pdt", "dpt", "ptd", "dtp", "tpd", "tdp"}) {
      candidate.order = order;
      if (!followsOrder(constraints().mesh, order))
        continue;
      std::string signature;
      for (char axis : {'p', 'd', 't'})
        for (int64_t members : countMembers({{candidate.getStride(axis), candidate.getSize(axis)}},
                                            problem.cluster.tiers))
          signature += std::to_string(members) + " ";
      if (seen.insert(signature).second)
        orders.emplace_back(order);
    }
    return orders;
  }

  /// Adds the sizes of micro-batches in ascending order. Stops at the first size that saves less
  /// than the tolerance, since larger micro-batches need more memory and have a larger bubble.
  void addBatches(Candidate candidate, std::vector<Branch> &branches) {
    if (problem.globalBatch % candidate.dp != 0)
      return;
    int64_t perShard = problem.globalBatch / candidate.dp;
    double least = std::numeric_limits<double>::infinity(), minSkipped = least;
    for (int64_t samples : getDivisors(perShard)) {
      candidate.samples = samples;
      candidate.microBatches = perShard / samples;
      int64_t batch = samples * candidate.dp;
      if (isOver())
        return;
      if (problem.fixedBatch && batch != *problem.fixedBatch)
        continue;
      if (candidate.microBatches > schedules::kMaxMicroBatches ||
          !constraints().get("micro-batches").allows(candidate.microBatches) ||
          !constraints().get("batch").allows(batch))
        continue;
      if (problem.allowsBatch && !problem.allowsBatch(batch)) {
        result.refusedBatches.insert(batch);
        continue;
      }
      std::vector<Candidate> candidates;
      double skipped = std::numeric_limits<double>::infinity();
      for (StringRef policy : listPolicies(candidate)) {
        candidate.policy = policy.str();
        double bound = workBounds.getBound(candidate);
        if (isTooSlow(bound))
          skipped = std::min(skipped, bound);
        else
          candidates.push_back(candidate);
      }
      // A bound of skipped policies and a bound from a class table cannot be compared.
      double &smallest = candidates.empty() ? minSkipped : least;
      double bound = candidates.empty() ? skipped : addPolicies(candidates, branches);
      if (bound > (1 - problem.tolerance) * smallest) {
        workBounds.setEnd(candidate.tp, samples);
        return;
      }
      smallest = std::min(smallest, bound);
    }
  }

  /// Adds a branch for each candidate. The candidates differ only in their policy. Returns the
  /// smallest lower bound; infinity if the model cannot be compiled. Omits a policy if another one
  /// is faster and needs no more memory.
  double addPolicies(ArrayRef<Candidate> candidates, std::vector<Branch> &branches) {
    std::vector<Branch> found;
    prepareTables(candidates);
    for (const Candidate &candidate : candidates) {
      ++considered;
      if (const ClassTable *table = problem.getTable(candidate, problem.cluster)) {
        found.push_back({candidate, getBound(*table, candidate), *table});
        maxSegments = std::max(maxSegments, table->segments.size());
        workBounds.add(candidate, *table);
      }
    }
    double least = std::numeric_limits<double>::infinity();
    for (const Branch &branch : found) {
      least = std::min(least, branch.bound);
      bool isBeaten = llvm::any_of(found, [&](const Branch &other) {
        return other.bound < branch.bound && getSaved(other.table) <= getSaved(branch.table) &&
               getTransient(other.table) <= getTransient(branch.table);
      });
      if (!isBeaten && hasSegments(branch.candidate.pp, branch.table.segments.size()))
        branches.push_back(branch);
    }
    return least;
  }

  /// Returns true if each stage has a segment. Otherwise, records the number of stages.
  bool hasSegments(int64_t stages, size_t segments) {
    if (stages <= int64_t(segments))
      return true;
    fewestStages = std::min(fewestStages.value_or(stages), stages);
    return false;
  }

  void prepareTables(ArrayRef<Candidate> candidates) {
    if (problem.prepareTables)
      problem.prepareTables(candidates);
  }

  static double getSaved(const ClassTable &table) {
    double bytes = 0;
    for (const SegmentCost &segment : table.segments)
      bytes += segment.saved;
    return bytes;
  }

  static double getTransient(const ClassTable &table) {
    double bytes = 0;
    for (const SegmentCost &segment : table.segments)
      bytes = std::max(bytes, segment.transient);
    return bytes;
  }

  SmallVector<StringRef> listPolicies(const Candidate &candidate) const {
    SmallVector<StringRef> policies;
    const Choices &given = constraints().get("sharding-policy");
    for (const std::string &value : given.getValues())
      policies.push_back(value);
    if (!policies.empty())
      return policies;
    for (const char *policy : kNamedPolicies)
      if (policies.empty() || candidate.tp > 1) // without a tensor axis, all policies are equal
        policies.push_back(policy);
    // Small models may be fastest if all ranks compute the same. Without a known bound, the search
    // does not try this policy, because its tables would only show that a larger model is slower.
    if (candidate.tp > 1 && workBounds.findUndivided(candidate.samples))
      policies.push_back(kReplicatedPolicy);
    return policies;
  }

  /// Stores the branches with a tensor axis, for which the searched policies may be tried later.
  void keepForSearch(std::vector<Branch> branches) {
    if (!constraints().get("sharding-policy").isFree())
      return;
    for (Branch &branch : branches)
      if (branch.candidate.tp > 1)
        named.push_back(std::move(branch));
  }

  /// Tries the searched policies for the branches with the smallest bounds, if the named policy
  /// leaves many matmuls unsplit, or if the branch has the tensor axis of the best plan. Tries only
  /// a few branches, because a search takes as long as building several tables.
  void exploreSearched() {
    std::set<std::pair<int64_t, int64_t>> tried; // tensor axis, samples
    std::set<std::tuple<std::string, int64_t, int64_t>> meshes;
    llvm::stable_sort(named, [](const Branch &a, const Branch &b) { return a.bound < b.bound; });
    int64_t bestAxis = result.plans.empty() ? 1 : result.plans.front().candidate.tp;
    for (const Branch &branch : named) {
      const Candidate &candidate = branch.candidate;
      if (isTooSlow(branch.bound / double(candidate.tp)))
        continue;
      double whole = getWholeShare(branch);
      double ideal = 1 - whole + whole / double(candidate.tp); // if all matmuls are split
      bool isTried = whole > kMaxWhole || candidate.tp == bestAxis;
      if (!isTried || isTooSlow(std::min(ideal, kSearchGain) * branch.bound) ||
          !meshes.insert({candidate.getMesh(), candidate.samples, candidate.microBatches}).second)
        continue;
      if (!result.isComplete ||
          (tried.insert({candidate.tp, candidate.samples}).second && tried.size() > kMaxSearches))
        return;
      exploreSearched(branch);
    }
  }

  /// Tries the searched policies for the mesh and samples of a branch. Tries `searched+memory` only
  /// if no plan with `searched` fits, or if `searched` needs more memory than the branch's policy.
  void exploreSearched(const Branch &branch) {
    int64_t before = result.priced;
    std::vector<Candidate> candidates(std::size(kSearchingPolicies), branch.candidate);
    for (auto [candidate, policy] : llvm::zip(candidates, kSearchingPolicies))
      candidate.policy = policy;
    prepareTables(candidates); // both are often needed
    std::vector<Branch> explored;
    for (const Candidate &candidate : candidates) {
      const ClassTable *table = problem.getTable(candidate, problem.cluster);
      if (!table)
        continue;
      Branch searched{candidate, getBound(*table, candidate), *table};
      if (isEqual(searched, branch)) { // the search found the shardings of the named policy
        if (hasPlan(branch))
          return;
        continue;
      }
      if (llvm::any_of(explored, [&](const Branch &b) { return isEqual(searched, b); }))
        continue; // both searches found the same shardings
      explored.push_back(searched);
      explore(searched);
      if (result.priced > before && getBytes(searched.table) <= getBytes(branch.table))
        return;
    }
  }

  /// Returns true if a plan of a branch is among the best plans.
  bool hasPlan(const Branch &branch) const {
    return llvm::any_of(result.plans, [&](const PricedCandidate &plan) {
      return plan.candidate.getMesh() == branch.candidate.getMesh() &&
             plan.candidate.samples == branch.candidate.samples &&
             plan.candidate.policy == branch.candidate.policy;
    });
  }

  /// Returns true if two branches that differ only in their policy have the same costs.
  static bool isEqual(const Branch &a, const Branch &b) {
    constexpr double kRounding = 1e-9;
    return std::abs(a.bound - b.bound) <= kRounding * b.bound &&
           std::abs(getBytes(a.table) - getBytes(b.table)) <= kRounding * getBytes(b.table) &&
           std::abs(getTransient(a.table) - getTransient(b.table)) <=
               kRounding * getTransient(b.table);
  }

  /// Returns the bytes of variables and of the saved values of a micro-batch.
  static double getBytes(const ClassTable &table) {
    double bytes = getSaved(table);
    for (const SegmentCost &segment : table.segments)
      bytes += segment.getVariableBytes(/*zero=*/0, /*shards=*/1);
    return bytes;
  }

  /// Returns the share of the matmuls that a branch does not split over its tensor axis. Example:
  /// if tp=2 takes 0.75 of the time of one rank, half of the work is not split.
  double getWholeShare(const Branch &branch) {
    Candidate one = branch.candidate;
    one.tp = 1; // the candidate has fewer ranks, but only its table matters here
    one.policy = listPolicies(one).front();
    const ClassTable *table = problem.getTable(one, problem.cluster);
    if (!table || getMatmuls(*table) == 0)
      return 0;
    double share = getMatmuls(branch.table) / getMatmuls(*table);
    double ranks = double(branch.candidate.tp);
    return std::clamp((share * ranks - 1) / (ranks - 1), 0.0, 1.0);
  }

  static double getMatmuls(const ClassTable &table) {
    double seconds = 0;
    for (const SegmentCost &segment : table.segments)
      seconds += segment.forward[Part::Matmul] + segment.backwardInput[Part::Matmul] +
                 segment.backwardWeight[Part::Matmul];
    return seconds;
  }

  /// Returns a lower bound of the time of a step: the time of all micro-batches, divided evenly
  /// over the pipeline. Excludes bubbles and communication over data axes.
  static double getBound(const ClassTable &table, const Candidate &candidate) {
    double seconds = 0, largest = 0;
    for (const SegmentCost &segment : table.segments) {
      seconds += segment.getSeconds();
      largest = std::max(largest, segment.getSeconds());
    }
    return std::max(seconds / double(candidate.pp), largest) * double(candidate.microBatches);
  }

  /// Returns true if a plan with this time is too slow for the list of wanted plans.
  bool isTooSlow(double seconds) const {
    return !result.plans.empty() && (seconds > kSlowest * result.plans.front().price.seconds ||
                                     (result.plans.size() >= problem.wanted &&
                                      seconds >= result.plans.back().price.seconds));
  }

  /// Returns true if a plan with this bound may be faster than the best plan by more than the
  /// tolerance.
  bool canBeBest(double bound) const {
    return result.plans.empty() ||
           bound < (1 - problem.tolerance) * result.plans.front().price.seconds;
  }

  /// Returns true if the time limit or an interrupt has ended the search.
  bool isEnded() const {
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    return elapsed.count() >= problem.timeLimit ||
           (problem.isInterrupted && problem.isInterrupted());
  }

  /// Like `isEnded`. Also records that a part of the space was not searched.
  bool isOver() {
    bool isCut = isEnded();
    result.isComplete &= !isCut;
    return isCut;
  }

  /// Prices the plans of a branch. Tries recomputation modes in ascending order of time. Stops at
  /// the first mode with which every schedule fits the memory, either without ZeRO or with ZeRO
  /// stage 1.
  void explore(const Branch &branch) {
    std::vector<Candidate> modes;
    for (const char *recompute : kSearchedModes)
      if (constraints().get("recompute").allows(StringRef(recompute))) {
        modes.push_back(branch.candidate);
        modes.back().zero = 0;
        modes.back().recompute = recompute;
      }
    for (const Candidate &candidate : modes) {
      bool isWhole = candidate.recompute == "none";
      if (!isWhole)
        prepareTables(modes); // a later mode is needed if an earlier one saves too little memory
      const ClassTable *table =
          isWhole ? &branch.table : problem.getTable(candidate, problem.cluster);
      if (!table)
        continue;
      if (isTooSlow(getBound(*table, candidate)))
        return;
      if (exploreStages(candidate, *table) || isOver())
        return;
    }
  }

  /// Prices the ZeRO stages of a candidate. `table` is its table without ZeRO. Higher stages save
  /// memory, but are faster only if they hide more communication. If every schedule fits with lower
  /// stages, the search therefore tries a stage only if its bound is below the best plan. Returns
  /// true if every schedule fits without ZeRO or with stage 1.
  bool exploreStages(Candidate candidate, ClassTable table) {
    double bound = getBound(table, candidate);
    LayoutPricer whole(std::move(table), problem.cluster, cuts);
    candidate.zero = 0;
    leanestOfStages.fill(std::nullopt);
    bool allFit = exploreSchedules(candidate, whole);
    bool needsMore = !allFit;
    // ZeRO divides variables, so the memory of each ZeRO stage follows from the table without ZeRO.
    std::array<std::optional<PricedCandidate>, 4> least = leanestOfStages;
    auto isPossible = [&](int64_t zero) {
      const std::optional<PricedCandidate> &of = least[size_t(zero)];
      return constraints().get("zero").allows(zero) && of && of->price.memory <= problem.memory;
    };
    if (needsMore && candidate.dp > 1) {
      std::vector<Candidate> candidates;
      for (candidate.zero = 1; candidate.zero < 4; ++candidate.zero)
        if (isPossible(candidate.zero))
          candidates.push_back(candidate);
      prepareTables(candidates);
    }
    for (candidate.zero = 1; candidate.dp > 1 && candidate.zero < 4; ++candidate.zero) {
      if (candidate.zero == 2)
        needsMore = !allFit;
      if (!isPossible(candidate.zero) || (allFit && !canBeBest(bound))) {
        if (least[size_t(candidate.zero)])
          keepLeanestBound(*least[size_t(candidate.zero)]);
        continue;
      }
      if (isOver())
        return true;
      if (const ClassTable *split = problem.getTable(candidate, problem.cluster)) {
        LayoutPricer pricer(*split, problem.cluster, cuts);
        allFit = exploreSchedules(candidate, pricer) || allFit;
      }
    }
    return !needsMore;
  }

  bool exploreSchedules(Candidate candidate, LayoutPricer &pricer) {
    if (candidate.pp == 1) // a constraint on the schedule demands a pipeline
      return !constraints().get("schedule").isFree() ||
             !constraints().get("num-chunks").allows(1) || consider(candidate, pricer);
    bool allFit = true;
    for (const schedules::Schedule &schedule : schedules::getSchedules()) {
      candidate.schedule = schedule.name;
      // gpipe takes as long as 1f1b, but needs more memory.
      if (!constraints().get("schedule").allows(StringRef(schedule.name)) ||
          (constraints().get("schedule").isFree() && candidate.schedule == "gpipe"))
        continue;
      for (int64_t chunks : kSearchedChunks) {
        candidate.chunks = chunks;
        if (schedule.minChunks <= chunks && chunks <= schedule.maxChunks &&
            constraints().get("num-chunks").allows(chunks) &&
            hasSegments(candidate.pp * chunks, pricer.getSegments()))
          allFit &= consider(candidate, pricer);
      }
    }
    return allFit;
  }

  /// Prices a candidate. Returns false if the candidate does not fit the memory, or if its ZeRO
  /// stage is not allowed.
  bool consider(const Candidate &candidate, LayoutPricer &pricer) {
    Layout layout = makeLayout(problem, candidate);
    Expected<LayoutPricer::Bounds> bounds = pricer.getBounds(layout);
    if (!bounds)
      return keepLayoutError(bounds.takeError());
    if (isTooSlow(bounds->seconds))
      return true;
    double most = problem.memory / problem.getMemoryFactor(candidate);
    if (bounds->memories[3] > most) { // does not fit with any ZeRO stage
      keepLeanestBound(candidate, *bounds);
      return false;
    }
    Expected<LayoutPrice> price = pricer.price(layout);
    if (!price)
      return keepLayoutError(price.takeError());
    PricedCandidate priced{candidate, *price};
    for (size_t zero = 0; zero < 4; ++zero) {
      PricedCandidate stage = priced;
      stage.candidate.zero = int64_t(zero);
      stage.price.memory = price->memories[zero];
      keepLeanest(leanestOfStages[zero], stage);
    }
    if (!constraints().get("zero").allows(candidate.zero))
      return false;
    if (price->memory > most) {
      keepLeanest(leanest, priced);
      return false;
    }
    ++result.priced;
    PricedCandidate &best = kinds.try_emplace(candidate.getKind(), priced).first->second;
    if (isFaster(priced, best))
      best = priced;
    result.plans.insert(llvm::upper_bound(result.plans, priced, isFaster), priced);
    if (result.plans.size() > problem.wanted)
      result.plans.pop_back();
    return true;
  }

  /// Records why the schedule or the cuts of a candidate do not fit its stages and micro-batches.
  /// Returns true, since the candidate does not exceed the memory.
  bool keepLayoutError(Error error) {
    std::string text = toString(std::move(error));
    if (layoutError.empty())
      layoutError = std::move(text);
    return true;
  }

  static void keepLeanest(std::optional<PricedCandidate> &leanest, const PricedCandidate &priced) {
    if (!leanest || priced.price.memory < leanest->price.memory)
      leanest = priced;
  }
  static void keepLeanest(std::map<Kind, PricedCandidate> &leanest, const PricedCandidate &priced) {
    auto [found, isNew] = leanest.try_emplace(priced.candidate.getKind(), priced);
    if (!isNew && priced.price.memory < found->second.price.memory)
      found->second = priced;
  }

  /// Keeps a candidate that does not fit according to its bounds, with the allowed ZeRO stage that
  /// needs the least memory.
  void keepLeanestBound(Candidate candidate, const LayoutPricer::Bounds &bounds) {
    for (int64_t zero = candidate.dp > 1 ? 3 : 0; zero >= 0; --zero) {
      if (!constraints().get("zero").allows(zero))
        continue;
      candidate.zero = zero;
      double memory = bounds.memories[size_t(zero)];
      keepLeanestBound({candidate, {bounds.seconds, {}, memory, {}}});
      return;
    }
  }

  void keepLeanestBound(const PricedCandidate &candidate) {
    if (!constraints().get("zero").allows(candidate.candidate.zero))
      return;
    auto &ofKind = leanestBounds[candidate.candidate.getKind()];
    ofKind.emplace(candidate.price.memory, candidate);
    if (ofKind.size() > kMaxLeanest)
      ofKind.erase(std::prev(ofKind.end()));
  }

  /// Lists the plan of each kind that needs the least memory. Candidates with only a lower bound of
  /// their memory are priced in ascending order of this bound, unless the bound exceeds the least
  /// memory of a priced plan.
  void addLeanest() {
    std::multimap<double, PricedCandidate> all;
    for (const auto &[kind, ofKind] : leanestBounds)
      all.insert(ofKind.begin(), ofKind.end());
    double least = std::numeric_limits<double>::infinity();
    for (const auto &[kind, priced] : leanest)
      least = std::min(least, problem.correctMemory(priced));
    for (auto &[memory, bounded] : all) {
      if (problem.correctMemory(bounded) >= least)
        continue;
      if (!leanest.empty() && isEnded())
        break;
      if (Expected<LayoutPrice> price = priceCandidate(problem, bounded.candidate))
        bounded.price = *price;
      else
        consumeError(price.takeError()); // use the lower bound instead
      keepLeanest(leanest, bounded);
      least = std::min(least, problem.correctMemory(bounded));
    }
    for (const auto &[kind, priced] : leanest)
      result.leanest.push_back(priced);
    llvm::stable_sort(result.leanest, [&](const PricedCandidate &a, const PricedCandidate &b) {
      return problem.correctMemory(a) < problem.correctMemory(b);
    });
  }

  /// Adds the fastest plan of each kind to the list of wanted plans, if the list lacks this plan
  /// and the plan is at most `kKindMargin` times as slow as the fastest one.
  void addKinds() {
    if (result.plans.empty())
      return;
    double slowest = result.plans.back().price.seconds;
    double limit = kKindMargin * result.plans.front().price.seconds;
    for (const auto &[kind, priced] : kinds)
      if (priced.price.seconds > slowest && priced.price.seconds <= limit)
        result.plans.push_back(priced);
    llvm::stable_sort(result.plans, isFaster);
  }

  static bool isFaster(const PricedCandidate &a, const PricedCandidate &b) {
    return a.price.seconds < b.price.seconds;
  }

  std::string whyEmpty() const {
    if (maxSegments > 0)
      return "the constraints allow no valid pipeline: " + whyNoPipeline();
    std::string failure = problem.getFailure ? problem.getFailure() : "";
    failure = failure.empty() ? "" : "; " + failure;
    if (considered > 0)
      return "the model cannot be compiled for any mesh that the constraints allow" + failure;
    std::string text = "no plan has a global batch of " + std::to_string(problem.globalBatch) +
                       " on " + describeCount(problem.ranks, "rank");
    if (problem.fixedBatch)
      return text +
             ": the export fixes the samples per micro-batch over all data-parallel ranks "
             "at " +
             std::to_string(*problem.fixedBatch) +
             "; export with a dynamic batch dim to allow other numbers";
    if (!result.refusedBatches.empty())
      return text + failure;
    return text + ": the constraints allow no mesh whose data axis divides this number";
  }

  std::string whyNoPipeline() const {
    std::vector<std::string> reasons;
    if (fewestStages)
      reasons.push_back("the constraints demand at least " + describeCount(*fewestStages, "stage") +
                        " (pp x num-chunks), but the model can only be cut into " +
                        std::to_string(maxSegments));
    if (!layoutError.empty())
      reasons.push_back(layoutError);
    return reasons.empty() ? "no allowed schedule fits an allowed number of chunks"
                           : join(reasons, "; ");
  }

  const SearchProblem &problem;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  CutCache cuts;
  std::vector<Branch> named; ///< branches with a named policy and a tensor axis
  WorkBounds workBounds{problem.tolerance};
  int64_t considered = 0;
  size_t maxSegments = 0; ///< of any table
  /// The fewest stages of a candidate that has more stages than the model has segments.
  std::optional<int64_t> fewestStages;
  std::string layoutError; ///< the first error of a schedule or of cuts that do not fit, or empty
  /// By kind: the fastest plan that fits, and the plan with the least memory (leanest) if none
  /// fits.
  std::map<Kind, PricedCandidate> kinds, leanest;
  /// By ZeRO stage: the leanest of the candidates that were priced since exploreStages() began.
  std::array<std::optional<PricedCandidate>, 4> leanestOfStages;
  /// By kind and memory: the leanest candidates that do not fit, and that were not priced from
  /// their own table.
  std::map<Kind, std::multimap<double, PricedCandidate>> leanestBounds;
  SearchResult result;
};

} // namespace

bool isSamePlan(const Candidate &a, const Candidate &b) {
  return a.recompute == b.recompute && a.policy == b.policy && a.zero == b.zero &&
         a.getMesh() == b.getMesh() && a.samples == b.samples && a.schedule == b.schedule &&
         a.chunks == b.chunks;
}

bool isAllowed(const SearchProblem &problem, const Candidate &candidate) {
  const Constraints &constraints = problem.constraints;
  auto allows = [&](StringRef flag, const auto &value) {
    return constraints.get(flag).allows(value);
  };
  int64_t batch = candidate.samples * candidate.dp;
  return allowsSizes(constraints.mesh, candidate) &&
         followsOrder(constraints.mesh, candidate.order) &&
         (!problem.fixedBatch || batch == *problem.fixedBatch) &&
         (!problem.allowsBatch || problem.allowsBatch(batch)) && allows("batch", batch) &&
         allows("micro-batches", candidate.microBatches) && allows("zero", candidate.zero) &&
         allows("num-chunks", candidate.chunks) &&
         allows("sharding-policy", StringRef(candidate.policy)) &&
         allows("recompute", StringRef(candidate.recompute)) &&
         (candidate.pp == 1 ? constraints.get("schedule").isFree()
                            : allows("schedule", StringRef(candidate.schedule)));
}

bool isUndivided(const SearchProblem &problem, const Candidate &candidate) {
  auto getWork = [&](const Candidate &each) -> std::optional<double> {
    const ClassTable *table = problem.getTable(each, problem.cluster);
    return table ? std::optional(Work::of(*table).compute) : std::nullopt;
  };
  Candidate divided = candidate, whole = candidate;
  divided.zero = whole.zero = 0;
  whole.tp = 1;
  whole.policy = kReplicatedPolicy;
  if (candidate.tp == 1)
    return false;
  std::optional<double> one = getWork(whole), all = getWork(divided);
  constexpr double kRounding = 1e-9;
  return one && all && *all >= (1 - kRounding) * *one;
}

Expected<LayoutPrice> priceCandidate(const SearchProblem &problem, const Candidate &candidate) {
  const ClassTable *table = problem.getTable(candidate, problem.cluster);
  if (!table)
    return createStringError("the model cannot be compiled with this plan");
  CutCache cuts(problem.findCuts);
  return LayoutPricer(*table, problem.cluster, cuts).price(makeLayout(problem, candidate));
}

Expected<SearchResult> search(const SearchProblem &problem) { return Searcher(problem).run(); }

} // namespace parashard::planner
