// Prices the neighbors of the best plan, and finds changes with which a plan fits.
#include "lib/Driver/PlanAdvice.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Quantity.h"
#include "lib/Driver/SmallerMicroBatch.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/Explain.h"
#include "mlir/IR/Diagnostics.h"
#include "parashard/Precision.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {

static std::string formatMemory(double bytes) { return sharding::formatBytes(int64_t(bytes)); }

/// Describes a candidate by the flags that a search chooses.
static std::string describe(const Candidate &candidate) {
  using ps::spellFlag;
  std::string text = llvm::formatv("{0} {1} {2} {3} {4} {5}, {6} micro-batch{7}", spellFlag("mesh"),
                                   candidate.getMesh(), spellFlag("zero"), candidate.zero,
                                   spellFlag("recompute"), candidate.recompute,
                                   candidate.microBatches, candidate.microBatches == 1 ? "" : "es");
  return text;
}

/// Describes the part of the step whose time grows most from one plan to another, and the growth.
/// Example: "bubble +1.20 ms".
static std::string describeGrowth(const Breakdown &from, const Breakdown &to) {
  Breakdown growth;
  for (size_t i = 0; i < kParts; ++i)
    growth[Part(i)] = to[Part(i)] - from[Part(i)];
  Part part = growth.getLargest();
  return (getName(part) + " +" + costs::printSeconds(growth[part])).str();
}

/// Returns true if a plan is faster than the best plan by more than the error of predictions.
static bool isFaster(const LayoutPrice &other, const LayoutPrice &best) {
  return other.seconds < (2 - kPredictionError) * best.seconds;
}

static Alternative compare(const SearchProblem &problem, const LayoutPrice &best,
                           const LayoutPrice &other) {
  Alternative result{"", other.seconds, other.memory, ""};
  double slower = other.seconds / best.seconds - 1;
  if (other.memory > problem.memory)
    result.reason = "needs more memory than " + formatMemory(problem.memory);
  else if (slower > 1)
    result.reason = llvm::formatv("{0:f1} times as long: {1}", 1 + slower,
                                  describeGrowth(best.parts, other.parts));
  else if (slower > 0.0005)
    result.reason = llvm::formatv("{0:f1} % slower: {1}", 100 * slower,
                                  describeGrowth(best.parts, other.parts));
  else if (!isFaster(other, best))
    result.reason = "as fast, within the error of the prediction";
  else
    result.reason = llvm::formatv("{0:f1} % faster; specify these flags to use it", -100 * slower);
  return result;
}

namespace {

/// Lists the plans that differ from a plan in one choice.
class Neighbors {
public:
  Neighbors(const SearchProblem &problem, const Candidate &best) : problem(problem), best(best) {}

  std::vector<std::pair<std::string, Candidate>> list() {
    for (char from : {'p', 'd', 't'})
      for (char to : {'p', 'd', 't'})
        if (from != to)
          moveAxis(from, to);
    changeBatches();
    for (const char *mode : kSearchedModes)
      change(ps::spellFlag("recompute") + " " + mode, [&](Candidate &c) { c.recompute = mode; });
    for (int64_t zero : {best.zero - 1, best.zero + 1})
      if (zero >= 0 && zero <= 3 && best.dp > 1)
        change(ps::spellFlag("zero") + " " + std::to_string(zero),
               [&](Candidate &c) { c.zero = zero; });
    if (best.tp > 1)
      for (const char *policy : kNamedPolicies)
        change(ps::spellFlag("sharding-policy") + " " + policy,
               [&](Candidate &c) { c.policy = policy; });
    changeSchedules();
    return std::move(neighbors);
  }

private:
  template <typename Function> void change(const std::string &text, Function function) {
    Candidate candidate = best;
    function(candidate);
    add(text, candidate);
  }
  void add(const std::string &text, const Candidate &candidate) {
    if (!isSamePlan(candidate, best) && isAllowed(problem, candidate))
      neighbors.emplace_back(text, candidate);
  }

  /// Moves the smallest prime factor of one axis's size to another axis. Example: pp=4,dp=2 becomes
  /// pp=2,dp=4. Keeps the samples per rank and micro-batch, if their number divides the rank's part
  /// of the global batch. Otherwise, uses the greatest common divisor of both numbers.
  void moveAxis(char from, char to) {
    Candidate candidate = best;
    auto at = [&](char axis) -> int64_t & {
      return axis == 'p' ? candidate.pp : axis == 'd' ? candidate.dp : candidate.tp;
    };
    int64_t factor = 2;
    while (factor <= at(from) && at(from) % factor != 0)
      ++factor;
    if (at(from) == 1)
      return;
    at(from) /= factor;
    at(to) *= factor;
    if (problem.globalBatch % candidate.dp != 0)
      return;
    int64_t samples = problem.globalBatch / candidate.dp;
    candidate.samples =
        problem.fixedBatch ? *problem.fixedBatch / candidate.dp : std::gcd(best.samples, samples);
    if (candidate.samples == 0 || samples % candidate.samples != 0)
      return;
    candidate.microBatches = samples / candidate.samples;
    if (candidate.pp == 1 || best.pp == 1) {
      candidate.schedule = "1f1b";
      candidate.chunks = 1;
    }
    if (candidate.dp == 1)
      candidate.zero = 0;
    std::string text = ps::spellFlag("mesh") + " " + candidate.getMesh();
    if (int64_t batch = candidate.samples * candidate.dp; batch != best.samples * best.dp)
      text += " " + ps::spellFlag("batch") + " " + std::to_string(batch);
    add(text, candidate);
  }

  void changeBatches() {
    auto changeBatch = [&](int64_t samples) {
      int64_t all = best.samples * best.microBatches;
      if (samples < 1 || samples > all || all % samples != 0)
        return;
      change(ps::spellFlag("batch") + " " + std::to_string(samples * best.dp), [&](Candidate &c) {
        c.samples = samples;
        c.microBatches = all / samples;
      });
    };
    if (best.samples % 2 == 0)
      changeBatch(best.samples / 2);
    changeBatch(best.samples * 2);
  }

  void changeSchedules() {
    if (best.pp == 1)
      return;
    for (const schedules::Schedule &schedule : schedules::getSchedules())
      for (int64_t chunks : kSearchedChunks)
        if (schedule.minChunks <= chunks && chunks <= schedule.maxChunks) {
          std::string text = ps::spellFlag("schedule") + " " + schedule.name;
          if (chunks > 1)
            text += " --num-chunks " + std::to_string(chunks);
          change(text, [&](Candidate &c) {
            c.schedule = schedule.name;
            c.chunks = chunks;
          });
        }
  }

  const SearchProblem &problem;
  const Candidate &best;
  std::vector<std::pair<std::string, Candidate>> neighbors;
};

/// Finds changes to the request after which a plan exists and fits the memory.
class Changes {
public:
  Changes(PlanSearch &search, const SearchProblem &problem) : search(search), problem(problem) {}

  /// `minBytes`: the memory of the leanest plan; nullopt if the memory is not the reason.
  std::vector<std::string> find(std::optional<double> minBytes) {
    if (minBytes)
      tryMemory(*minBytes);
    for (const auto &[flag, choices] : problem.constraints.flags) {
      SearchProblem relaxed = problem;
      relaxed.constraints.flags.erase(flag);
      tryProblem("without the constraint on --" + flag, relaxed);
    }
    for (const auto &[axis, choices] : problem.constraints.mesh.axes) {
      SearchProblem relaxed = problem;
      llvm::erase_if(relaxed.constraints.mesh.axes,
                     [&, name = axis](const auto &other) { return other.first == name; });
      tryProblem("without the constraint on the axis " + axis, relaxed);
    }
    tryPrecision();
    tryGlobalBatch();
    if (minBytes)
      tryMicroBatches();
    tryRanks();
    changes.insert(changes.end(), notes.begin(), notes.end());
    return std::move(changes);
  }

private:
  /// Tries the memory of the leanest plan, then more. The search may not find the leanest plan
  /// again, since a larger limit changes which plans are compiled.
  void tryMemory(double bytes) {
    for (double factor : {1.0, 1.05, 1.2, 1.5, 2.0}) {
      SearchProblem larger = problem;
      larger.memory = std::ceil(factor * bytes);
      if (tryProblem(llvm::formatv("with --{0} {1}", search.getRequest().memoryFlag,
                                   int64_t(larger.memory)),
                     larger))
        return;
    }
  }

  /// Tries the next global batch that is a multiple of the ranks. With other global batches, some
  /// meshes are not possible.
  void tryGlobalBatch() {
    if (problem.fixedBatch || problem.globalBatch % problem.ranks == 0)
      return;
    SearchProblem larger = problem;
    larger.globalBatch += problem.ranks - problem.globalBatch % problem.ranks;
    tryProblem("with " + ps::spellFlag("global-batch " + std::to_string(larger.globalBatch)),
               larger);
  }

  /// Tries bf16 for a model that is computed in fp32.
  void tryPrecision() {
    const std::string &given = search.getRequest().options.precision;
    llvm::Expected<precision::PrecisionSpec> spec = precision::parsePrecision(given);
    if (!spec)
      return llvm::consumeError(spec.takeError());
    if (spec->kind != precision::PrecisionSpec::Kind::Fp32)
      return;
    MLIRContext &context = search.getContext();
    ScopedDiagnosticHandler silence(&context, [](Diagnostic &) { return success(); });
    PlanRequest request = search.getRequest();
    request.options.precision = "bf16";
    PlanSearch other(context, request, search.getCluster());
    if (succeeded(other.start(/*isQuiet=*/true)))
      tryProblem(other, "with " + ps::spellFlag("precision bf16"),
                 other.makeProblem(problem.constraints));
  }

  /// Tries micro-batches that are smaller than the fixed batch of the export. They need another
  /// export.
  void tryMicroBatches() {
    std::optional<SmallerMicroBatch> smaller = findSmallerMicroBatch(search, limitTime(problem));
    if (!smaller)
      return;
    if (smaller->plan)
      changes.push_back(llvm::formatv("with another export and {0}: {1} ({2})",
                                      ps::spellFlag("batch " + std::to_string(smaller->batch)),
                                      describe(*smaller->plan), smaller->reason));
    else
      notes.push_back("smaller micro-batches could not be searched (" + smaller->reason + ")");
  }

  void tryRanks() {
    for (int64_t factor : {2, 4, 8}) {
      SearchProblem larger = problem;
      larger.ranks *= factor;
      std::optional<int64_t> most = problem.cluster.getMostRanks();
      if ((!most || larger.ranks <= *most) &&
          tryProblem("with " + describeCount(larger.ranks, "rank"), larger))
        break;
    }
  }

  static SearchProblem limitTime(SearchProblem changed) {
    changed.timeLimit = std::min(changed.timeLimit, 10.0);
    return changed;
  }

  /// Adds the change `text` if a compiled plan fits the memory in the problem `changed`.
  bool tryProblem(const std::string &text, const SearchProblem &changed) {
    return tryProblem(search, text, changed);
  }
  bool tryProblem(PlanSearch &search, const std::string &text, const SearchProblem &changed) {
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (elapsed.count() > kTimeLimit)
      return false;
    llvm::Expected<PlanSearch::Found> found = search.find(limitTime(changed));
    if (!found)
      return llvm::consumeError(found.takeError()), false;
    if (found->plans.empty())
      return false;
    changes.push_back(text + ": " + describe(found->plans.front().estimate.candidate));
    return true;
  }

  /// No change is tried after this time, in seconds.
  static constexpr double kTimeLimit = 20;

  PlanSearch &search;
  const SearchProblem &problem;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  std::vector<std::string> changes;
  std::vector<std::string> notes; ///< about changes that could not be tried
};

} // namespace

/// Returns the estimated price of a compiled plan, with the time and memory of its program.
static LayoutPrice getProgramPrice(const Finalist &plan) {
  LayoutPrice price = plan.estimate.price;
  price.seconds = plan.price->seconds;
  price.memory = double(plan.price->memoryBytes);
  return price;
}

/// Compiles a neighbor of the best plan. Sets the figures and the reason of `result` to those of
/// its program. Returns the neighbor if its program is faster by more than the error of
/// predictions, and fits the memory.
static std::optional<Finalist> comparePrograms(PlanSearch &search, const SearchProblem &problem,
                                               const Finalist &best, const PricedCandidate &other,
                                               Alternative &result) {
  llvm::Expected<std::vector<Finalist>> compiled = search.compile(other);
  if (!compiled)
    return llvm::consumeError(compiled.takeError()), std::nullopt;
  if (compiled->empty()) {
    result.reason = "cannot be compiled";
    return std::nullopt;
  }
  LayoutPrice program = getProgramPrice(compiled->front());
  Alternative compared = compare(problem, getProgramPrice(best), program);
  compared.change = std::move(result.change);
  compared.reason = "compiled: " + compared.reason;
  result = std::move(compared);
  bool isBetter = program.memory <= problem.memory && isFaster(program, getProgramPrice(best));
  return isBetter ? std::optional(std::move(compiled->front())) : std::nullopt;
}

std::vector<Alternative> explainNeighbors(PlanSearch &search, const SearchProblem &problem,
                                          const Finalist &best, std::optional<Finalist> &faster) {
  std::vector<Alternative> result;
  for (auto &[text, candidate] : Neighbors(problem, best.estimate.candidate).list()) {
    llvm::Expected<LayoutPrice> price = priceCandidate(problem, candidate);
    if (!price) {
      llvm::consumeError(price.takeError());
      continue;
    }
    result.push_back(compare(problem, best.estimate.price, *price));
    result.back().change = text;
    if (price->memory > problem.memory || !isFaster(*price, best.estimate.price))
      continue;
    std::optional<Finalist> other =
        comparePrograms(search, problem, best, {candidate, *price}, result.back());
    if (other && (!faster || other->price->seconds < faster->price->seconds))
      faster = std::move(other);
  }
  return result;
}

llvm::Error addConstraint(Constraints &constraints, llvm::StringRef text) {
  auto [name, value] = text.split('=');
  auto fail = [&](const llvm::Twine &message) {
    return ps::createFlagError("why-not \"" + text + "\"", message);
  };
  if (name == "pp" || name == "dp" || name == "tp") {
    llvm::Expected<MeshChoices> mesh = parseMeshChoices(text);
    if (!mesh)
      return fail(": " + llvm::toString(mesh.takeError()));
    auto &axes = constraints.mesh.axes;
    llvm::erase_if(axes, [&](const auto &axis) { return mesh->find(axis.first); });
    llvm::append_range(axes, mesh->axes);
    return llvm::Error::success();
  }
  if (name == "mesh" || !llvm::is_contained(getSearchedFlags(), name))
    return fail(" takes an axis or a searched flag, such as pp=4, zero=3 or recompute=full");
  llvm::Expected<Choices> choices = Choices::parse(value);
  if (!choices)
    return fail(": " + llvm::toString(choices.takeError()));
  if (llvm::Error error = checkChoices(name, *choices))
    return fail(": " + name + llvm::toString(std::move(error)));
  constraints.flags[name.str()] = std::move(*choices);
  return llvm::Error::success();
}

llvm::Expected<Alternative> explainWhyNot(PlanSearch &search, SearchProblem problem,
                                          const Finalist &best, llvm::StringRef text) {
  if (llvm::Error error = addConstraint(problem.constraints, text))
    return std::move(error);
  Alternative result{text.str(), 0, 0, ""};
  if (llvm::Error error = search.checkConflicts(problem.constraints)) {
    result.reason = llvm::toString(std::move(error));
    return result;
  }
  llvm::Expected<PlanSearch::Found> found = search.find(problem);
  if (!found) {
    result.reason = llvm::toString(found.takeError());
    return result;
  }
  if (found->plans.empty()) {
    result.reason = "no plan fits " + formatMemory(problem.memory);
    if (found->leanest)
      result.reason += ": the leanest needs " +
                       formatMemory(double(found->leanest->price->memoryBytes)) + " (" +
                       describe(found->leanest->estimate.candidate) + ")";
    return result;
  }
  const Finalist &other = found->plans.front();
  result = compare(problem, getProgramPrice(best), getProgramPrice(other));
  result.change = text.str() + " (" + describe(other.estimate.candidate) + ")";
  if (isSamePlan(other.estimate.candidate, best.estimate.candidate))
    result.reason = "is the first plan";
  return result;
}

llvm::Error createMisfitError(PlanSearch &search, const SearchProblem &problem,
                              const PlanSearch::Found &found) {
  const std::optional<Finalist> &leanest = found.leanest;
  if (llvm::StringRef reason = search.getCompiler().getFailure(); !leanest)
    return llvm::createStringError("no plan can be compiled" +
                                   (reason.empty() ? "" : "; " + reason));
  double bytes = double(leanest->price->memoryBytes);
  std::string text = llvm::formatv(
      "no plan fits the memory of a rank, {0}: the leanest needs {1} ({2})",
      formatMemory(problem.memory), formatMemory(bytes), describe(leanest->estimate.candidate));
  int64_t batch = leanest->estimate.candidate.samples * leanest->estimate.candidate.dp;
  if (!found.refusedBatches.empty() && *found.refusedBatches.begin() < batch)
    text += "; smaller micro-batches are not possible (" +
            search.getCompiler().getBatchFailure().str() + ")";
  text += "; a plan fits";
  for (const std::string &change : Changes(search, problem).find(bytes))
    text += "\n  " + change;
  return llvm::createStringError(text);
}

llvm::Error createEmptyError(PlanSearch &search, const SearchProblem &problem,
                             llvm::StringRef reason) {
  std::vector<std::string> changes = Changes(search, problem).find(std::nullopt);
  std::string text = reason.str();
  if (!changes.empty())
    text += "; a plan is possible\n  " + llvm::join(changes, "\n  ");
  return llvm::createStringError(text);
}

} // namespace parashard::driver
