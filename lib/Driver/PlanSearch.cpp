// Repeats the search until the compiled programs of its best plans fit the memory.
#include "lib/Driver/PlanSearch.h"
#include "lib/Planner/Conflicts.h"
#include "mlir/IR/Threading.h"
#include <set>

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {
namespace {

/// Plans whose estimated time is within this factor of the best compiled plan are compiled, too.
constexpr double kMargin = 1.03;
/// `kMaxFinalists`: the maximum number of plans to compile within `kMargin`. `kMaxMisfits`: if
/// this many compiled plans do not fit the memory, and no plan fits, the search is repeated with
/// larger memory estimates.
/// `kMaxLeanest`: if no plan fits, the maximum number of plans to compile to find the leanest.
constexpr size_t kMaxFinalists = 4, kMaxMisfits = 2, kMaxLeanest = 6;
constexpr int kMaxRounds = 8;
/// The number of plans that are compiled in parallel. This number is the same on all machines,
/// because the answer of the search depends on it.
constexpr size_t kAtOnce = 2;
/// The maximum number of pipeline tasks (stages x micro-batches) of all compiled plans. Only the
/// plans that the request demands may exceed this number. A program of 16,384 tasks takes about ten
/// seconds to compile.
constexpr int64_t kMaxTasks = 16384;

} // namespace

/// The compiled plans of one search.
struct PlanSearch::Round {
  std::vector<Finalist> plans;
  /// By kind of plan: the largest ratio of actual to estimated memory, over programs that do not
  /// fit.
  std::map<Candidate::Kind, double> excess;
};

PlanSearch::PlanSearch(MLIRContext &context, const PlanRequest &request,
                       const costs::Cluster &cluster)
    : context(context), request(request), cluster(cluster), compiler(context, this->request) {}

LogicalResult PlanSearch::start(bool isQuiet) {
  if (failed(compiler.start(isQuiet)))
    return failure();
  if (request.globalBatch == 0)
    request.globalBatch = compiler.getExportedBatch().value_or(1);
  return success();
}

SearchProblem PlanSearch::makeProblem(Constraints constraints) {
  SearchProblem problem;
  problem.cluster = cluster;
  problem.ranks = request.ranks;
  problem.globalBatch = request.globalBatch;
  problem.fixedBatch = compiler.getFixedBatch();
  problem.memory = request.memory.value_or(cluster.device.memory - cluster.device.reserve);
  problem.constraints = std::move(constraints);
  problem.timeLimit = request.timeLimit;
  problem.isInterrupted = request.isInterrupted;
  problem.getTable = [this](const Candidate &candidate, const costs::Cluster &prices) {
    return compiler.getTable(candidate, prices);
  };
  problem.prepareTables = [this](llvm::ArrayRef<Candidate> candidates) {
    compiler.prepareTables(candidates);
  };
  problem.allowsBatch = [this](int64_t batch) { return compiler.allowsBatch(batch); };
  problem.getFailure = [this] {
    llvm::StringRef reason = compiler.getFailure();
    return (reason.empty() ? compiler.getBatchFailure() : reason).str();
  };
  if (llvm::StringRef method = request.options.splitMethod; !method.empty() && method != "time")
    problem.findCuts = [this](const schedules::Placement &p) { return compiler.findCuts(p); };
  problem.getTableShards = [this](const Candidate &c) { return compiler.getTableShards(c); };
  return problem;
}

llvm::Error PlanSearch::checkConflicts(const Constraints &constraints) const {
  return planner::checkConflicts({request.ranks, request.ranksFlag, request.globalBatch,
                                  compiler.getFixedBatch(),
                                  countNamedStages(request.options.splitMethod)},
                                 constraints);
}

llvm::Expected<std::vector<Finalist>>
PlanSearch::compile(llvm::ArrayRef<PricedCandidate> candidates) {
  std::vector<std::optional<llvm::Expected<std::optional<PlanPrice>>>> prices(candidates.size());
  compiler.prepare(llvm::map_to_vector(
      candidates, [](const PricedCandidate &priced) { return priced.candidate; }));
  parallelFor(&context, 0, candidates.size(),
              [&](size_t i) { prices[i].emplace(compiler.compile(candidates[i].candidate)); });
  llvm::Error error = llvm::Error::success();
  std::vector<Finalist> finalists;
  for (auto [candidate, price] : llvm::zip(candidates, prices))
    if (!*price)
      error = llvm::joinErrors(std::move(error), price->takeError());
    else if (**price)
      finalists.push_back({candidate, std::move(**price), std::nullopt});
  if (error)
    return std::move(error);
  return finalists;
}

namespace {

/// Chooses the plans of a search to compile, in ascending order of their estimates.
class FinalistChooser {
public:
  explicit FinalistChooser(size_t wanted) : wanted(wanted) {}

  /// Returns true for the first `wanted` plans, for plans that are close to the best one so far,
  /// and for the best plan of each kind. Assumes that these plans fit the memory. `update` corrects
  /// the assumption.
  bool wants(const PricedCandidate &plan) {
    bool isFirst = kinds.insert(plan.candidate.getKind()).second;
    double seconds = plan.price.seconds;
    if (compiled >= wanted && !(compiled < kMaxFinalists && seconds <= kMargin * best) &&
        !(isFirst && seconds <= kKindMargin * best))
      return false;
    tasks += plan.candidate.pp * plan.candidate.chunks * plan.candidate.microBatches;
    if (compiled >= wanted && tasks > kMaxTasks)
      return false;
    ++compiled;
    best = std::min(best, seconds);
    return true;
  }
  /// Corrects the best time and the number of plans after the wanted plans are compiled.
  void update(llvm::ArrayRef<Finalist> plans) {
    compiled = plans.size();
    best = std::numeric_limits<double>::infinity();
    for (const Finalist &plan : plans)
      best = std::min(best, plan.price->seconds);
  }

private:
  size_t wanted, compiled = 0;
  int64_t tasks = 0;
  double best = std::numeric_limits<double>::infinity();
  std::set<Candidate::Kind> kinds;
};

} // namespace

/// Compiles candidates in parallel. Adds the plans that fit to `round`. Of the other plans, only
/// records how much more memory than estimated they need (`excess`). Returns the number of plans
/// that do not fit.
llvm::Expected<size_t> PlanSearch::compile(llvm::ArrayRef<PricedCandidate> candidates,
                                           double memory, Round &round) {
  llvm::Expected<std::vector<Finalist>> compiled = compile(candidates);
  if (!compiled)
    return compiled.takeError();
  size_t misfits = 0;
  for (Finalist &finalist : *compiled) {
    double bytes = double(finalist.price->memoryBytes);
    if (bytes <= memory) {
      round.plans.push_back(std::move(finalist));
      continue;
    }
    ++misfits;
    double &excess = round.excess[finalist.estimate.candidate.getKind()];
    excess = std::max(excess, bytes / finalist.estimate.price.memory);
  }
  return misfits;
}

/// Compiles the best plans of a search, and the best plan of each kind. Ends early if the first
/// plans do not fit.
llvm::Expected<PlanSearch::Round> PlanSearch::compileFinalists(const SearchResult &found,
                                                               double memory) {
  Round round;
  std::vector<Finalist> estimates;
  FinalistChooser chooser(request.finalists);
  std::vector<PricedCandidate> chosen;
  size_t misfits = 0;
  for (size_t i = 0; i < found.plans.size() && (!round.plans.empty() || misfits < kMaxMisfits);
       ++i) {
    bool isLate = !round.plans.empty() && request.isInterrupted && request.isInterrupted();
    if (isLate || !chooser.wants(found.plans[i]))
      estimates.push_back({found.plans[i], std::nullopt, std::nullopt});
    else
      chosen.push_back(found.plans[i]);
    if (chosen.empty() || (chosen.size() < kAtOnce && i + 1 < found.plans.size()))
      continue;
    llvm::Expected<size_t> excess = compile(chosen, memory, round);
    if (!excess)
      return excess.takeError();
    misfits += *excess;
    chooser.update(round.plans);
    chosen.clear();
  }
  llvm::sort(round.plans, [](const Finalist &a, const Finalist &b) {
    return a.price->seconds < b.price->seconds;
  });
  if (!round.plans.empty())
    llvm::append_range(round.plans, estimates);
  return round;
}

/// Compares the plans that are as fast as the first one, within the error of the prediction. Moves
/// to the front the plan that loses least if one figure of the cluster is wrong. Otherwise, the
/// search would prefer the plan whose time the cost model underestimates most.
void PlanSearch::preferRobust(const SearchProblem &problem, std::vector<Finalist> &plans) {
  size_t close = 0;
  while (close < plans.size() && plans[close].price &&
         plans[close].price->seconds <= kPredictionError * plans.front().price->seconds)
    plans[close++].regret = 0;
  if (close < 2)
    return;
  SearchProblem varied = problem;
  for (costs::Cluster &changed : costs::varyFigures(problem.cluster, kFigureError)) {
    varied.cluster = std::move(changed);
    std::vector<double> seconds;
    for (const Finalist &plan : llvm::ArrayRef(plans).take_front(close)) {
      llvm::Expected<LayoutPrice> price = priceCandidate(varied, plan.estimate.candidate);
      double estimate = price ? price->seconds : plan.estimate.price.seconds;
      llvm::consumeError(price.takeError());
      seconds.push_back(estimate * plan.price->seconds / plan.estimate.price.seconds);
    }
    double best = *llvm::min_element(seconds);
    for (size_t i = 0; i < close; ++i)
      plans[i].regret = std::max(*plans[i].regret, seconds[i] / best - 1);
  }
  auto robust = llvm::min_element(
      llvm::MutableArrayRef(plans).take_front(close),
      [](const Finalist &a, const Finalist &b) { return *a.regret + 0.001 < *b.regret; });
  std::rotate(plans.begin(), plans.begin() + (robust - plans.data()),
              plans.begin() + (robust - plans.data()) + 1);
}

/// Compiles the leanest plans, until the estimate of the next plan exceeds the least memory of a
/// program, or `kMaxLeanest` plans are compiled. Returns the plan that needs the least memory;
/// nullopt if none can be compiled.
llvm::Expected<std::optional<Finalist>>
PlanSearch::compileLeanest(const SearchProblem &problem, llvm::ArrayRef<PricedCandidate> leanest) {
  std::optional<Finalist> least;
  for (size_t i = 0; i < std::min(leanest.size(), kMaxLeanest); i += kAtOnce) {
    if (least && problem.correctMemory(leanest[i]) > double(least->price->memoryBytes))
      break;
    llvm::Expected<std::vector<Finalist>> compiled =
        compile(leanest.drop_front(i).take_front(kAtOnce));
    if (!compiled)
      return compiled.takeError();
    for (Finalist &plan : *compiled)
      if (!least || plan.price->memoryBytes < least->price->memoryBytes)
        least = std::move(plan);
  }
  return least;
}

llvm::Expected<PlanSearch::Found> PlanSearch::find(const SearchProblem &problem) {
  auto begin = std::chrono::steady_clock::now();
  Found result;
  SearchProblem estimated = problem;
  for (int i = 0; i < kMaxRounds; ++i) {
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    estimated.timeLimit = problem.timeLimit - elapsed.count();
    llvm::Expected<SearchResult> found = search(estimated);
    if (!found)
      return found.takeError();
    result.priced = std::max(result.priced, found->priced);
    result.isComplete = found->isComplete;
    result.refusedBatches = found->refusedBatches;
    llvm::Expected<Round> round = compileFinalists(*found, problem.memory);
    if (!round)
      return round.takeError();
    result.plans = std::move(round->plans);
    if (!result.plans.empty()) {
      preferRobust(problem, result.plans);
      return result;
    }
    bool isLast = found->plans.empty() || !found->isComplete || i + 1 == kMaxRounds;
    if (isLast) {
      llvm::Expected<std::optional<Finalist>> leanest = compileLeanest(estimated, found->leanest);
      if (!leanest)
        return leanest.takeError();
      if (*leanest && double((*leanest)->price->memoryBytes) <= problem.memory)
        result.plans.push_back(std::move(**leanest));
      else
        result.leanest = std::move(*leanest);
      return result;
    }
    for (auto [kind, excess] : round->excess) {
      double &factor = estimated.memoryFactors.try_emplace(kind, 1).first->second;
      factor = std::max(1.01 * factor, excess);
    }
  }
  return result;
}

} // namespace parashard::driver
