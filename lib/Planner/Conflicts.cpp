// Finds constraints on plans that contradict each other: tries sets of constraints, and returns the
// smallest set that no plan satisfies.
#include "lib/Planner/Conflicts.h"
#include "dialects/ps/Refusal.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <set>

using namespace llvm;

namespace parashard::planner {
namespace {

/// Restrictions of a plan, in the order of their flags in messages.
enum Rule : unsigned {
  Pp,
  Dp,
  Tp,
  Batch,
  MicroBatches,
  Schedule,
  Chunks,
  Zero,
  Split,
  FixedBatch,
  Ranks,
  GlobalBatch,
  kRules
};
/// A set of rules: bit `1 << rule` for each.
using Rules = unsigned;

bool has(Rules rules, Rule rule) { return rules & (1U << rule); }

constexpr StringLiteral kFlags[] = {
    "pp",         "dp",   "tp",           "batch", "micro-batches", "schedule",
    "num-chunks", "zero", "split-method", "",      "ranks",         "global-batch"};

/// Returns the divisors of a number in ascending order.
std::vector<int64_t> getDivisors(int64_t number) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d <= number / d; ++d)
    if (number % d == 0) {
      low.push_back(d);
      if (d != number / d)
        high.push_back(number / d);
    }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// The choices that each rule allows, and the numbers that every plan must have.
class Problem {
public:
  Problem(PlanNumbers numbers, const Constraints &constraints) : numbers(std::move(numbers)) {
    for (Rule rule : {Pp, Dp, Tp})
      if (const Choices *axis = constraints.mesh.find(kFlags[rule]))
        choices[rule] = *axis;
    for (Rule rule : {Batch, MicroBatches, Schedule, Chunks, Zero})
      choices[rule] = constraints.get(kFlags[rule]);
  }

  /// Returns the rules that restrict the plan. Omits rules without a constraint.
  Rules getGiven() const {
    Rules given = 1U << Ranks;
    if (numbers.globalBatch != 0)
      given |= 1U << GlobalBatch;
    for (unsigned rule = Pp; rule <= Zero; ++rule)
      if (!choices[rule].isFree())
        given |= 1U << rule;
    if (numbers.stages)
      given |= 1U << Split;
    if (numbers.fixedBatch)
      given |= 1U << FixedBatch;
    return given;
  }

  /// Returns a copy of the problem in which a rule allows only one value.
  Problem with(Rule rule, StringRef value) const {
    Problem other = *this;
    if (rule == Ranks)
      (void)value.getAsInteger(10, other.numbers.ranks);
    else if (rule == GlobalBatch)
      (void)value.getAsInteger(10, other.numbers.globalBatch);
    else
      other.choices[rule] = cantFail(Choices::parse(value));
    return other;
  }

  /// Returns true if some plan satisfies the rules.
  bool isPossible(Rules rules) const {
    std::map<int64_t, bool> shards;
    std::vector<int64_t> sizes = listSizes(rules);
    for (int64_t dp : sizes)
      shards[dp] = allows(rules, Dp, dp) && allowsShards(rules, dp);
    for (int64_t pp : sizes) {
      if (!allows(rules, Pp, pp) || !allowsStages(rules, pp))
        continue;
      for (int64_t dp : sizes)
        if (shards[dp] && allowsTensor(rules, sizes, pp, dp))
          return true;
    }
    return false;
  }

  const PlanNumbers &getNumbers() const { return numbers; }
  const Choices &getChoices(Rule rule) const { return choices[rule]; }

private:
  bool allows(Rules rules, Rule rule, int64_t value) const {
    return !has(rules, rule) || choices[rule].allows(value);
  }

  /// Returns the sizes of axes to try.
  std::vector<int64_t> listSizes(Rules rules) const {
    if (has(rules, Ranks))
      return getDivisors(numbers.ranks);
    std::set<int64_t> sizes = {1, 2, 4};
    for (Rule axis : {Pp, Dp, Tp})
      for (int64_t size : choices[axis].getNumbers())
        sizes.insert({std::max<int64_t>(size, 1), std::max<int64_t>(size, 1) + 1});
    for (int64_t size : getDivisors(numbers.stages.value_or(1)))
      sizes.insert(size);
    return {sizes.begin(), sizes.end()};
  }

  bool allowsTensor(Rules rules, ArrayRef<int64_t> sizes, int64_t pp, int64_t dp) const {
    if (!has(rules, Ranks))
      return any_of(sizes, [&](int64_t tp) { return allows(rules, Tp, tp); });
    int64_t rest = numbers.ranks / pp;
    return rest % dp == 0 && allows(rules, Tp, rest / dp);
  }

  /// Returns true if a schedule and a number of chunks exist for a pipeline axis of this size.
  bool allowsStages(Rules rules, int64_t pp) const {
    auto fits = [&](int64_t chunks) {
      return allows(rules, Chunks, chunks) && (!has(rules, Split) || pp * chunks == numbers.stages);
    };
    if (pp == 1)
      return !has(rules, Schedule) && fits(1);
    return any_of(schedules::getSchedules(), [&](const schedules::Schedule &schedule) {
      if (has(rules, Schedule) && !choices[Schedule].allows(StringRef(schedule.name)))
        return false;
      return any_of(kSearchedChunks, [&](int64_t chunks) {
        return chunks >= schedule.minChunks && chunks <= schedule.maxChunks && fits(chunks);
      });
    });
  }

  /// Returns true if a ZeRO stage and a batch exist for this number of data-parallel ranks.
  bool allowsShards(Rules rules, int64_t dp) const {
    if (dp == 1 && !allows(rules, Zero, 0))
      return false;
    return any_of(listBatches(rules, dp), [&](int64_t batch) {
      if (batch % dp != 0 || !allows(rules, Batch, batch) ||
          (has(rules, FixedBatch) && batch != numbers.fixedBatch))
        return false;
      if (!has(rules, GlobalBatch))
        return true;
      int64_t count = numbers.globalBatch / batch;
      return numbers.globalBatch % batch == 0 && count <= schedules::kMaxMicroBatches &&
             allows(rules, MicroBatches, count);
    });
  }

  std::vector<int64_t> listBatches(Rules rules, int64_t dp) const {
    if (has(rules, GlobalBatch))
      return getDivisors(numbers.globalBatch);
    std::vector<int64_t> batches = {dp};
    if (numbers.fixedBatch)
      batches.push_back(*numbers.fixedBatch);
    for (int64_t number : choices[Batch].getNumbers())
      for (int64_t multiple : {number / dp * dp, (number / dp + 1) * dp})
        if (multiple > 0)
          batches.push_back(multiple);
    return batches;
  }

  PlanNumbers numbers;
  Choices choices[kRules];
};

/// Returns the smallest subset of the given rules that no plan satisfies.
Rules findConflict(const Problem &problem, Rules given) {
  Rules least = given;
  for (Rules subset = given; subset != 0; subset = (subset - 1) & given)
    if (popcount(subset) < popcount(least) && !problem.isPossible(subset))
      least = subset;
  return least;
}

/// Describes a conflict: the flags, the rule that they break, and what to change.
class Explainer {
public:
  Explainer(const Problem &problem, Rules conflict) : problem(problem), conflict(conflict) {}

  Error explain() const {
    std::vector<std::string> flags = listFlags(), fixes = listFixes();
    std::string text = describeContradiction() + ": " + join(listReasons(), "; ");
    if (!fixes.empty())
      text += "; use " + join(fixes, ", or ");
    Rules numbers = 1U << Ranks | 1U << GlobalBatch,
          rest = problem.getGiven() & ~(conflict & ~numbers);
    if (!problem.isPossible(rest)) {
      Explainer other(problem, findConflict(problem, rest));
      text +=
          "; " + ps::spellFlag(other.listFlags().front()) + other.describeContradiction() + ", too";
    }
    Error error = ps::createFlagError(flags.front(), text);
    // The export is part of the model, not of the command line.
    return has(conflict, FixedBatch) ? createStringError(toString(std::move(error)))
                                     : std::move(error);
  }

private:
  /// Returns the contradiction without its first flag. Example: " and --zero 1 contradict each
  /// other".
  std::string describeContradiction() const {
    std::vector<std::string> flags = listFlags(), others;
    for (StringRef flag : ArrayRef(flags).drop_front())
      others.push_back(ps::spellFlag(flag));
    if (others.empty())
      return " cannot be met";
    if (others.size() == 1)
      return " and " + others.front() + " contradict each other";
    return ", " + join(ArrayRef(others).drop_back(), ", ") + " and " + others.back() +
           " contradict one another";
  }

  bool involves(std::initializer_list<Rule> rules) const {
    return any_of(rules, [&](Rule rule) { return has(conflict, rule); });
  }

  std::vector<std::string> listFlags() const {
    std::vector<std::string> flags, axes;
    for (Rule axis : {Pp, Dp, Tp})
      if (has(conflict, axis))
        axes.push_back((kFlags[axis] + "=" + problem.getChoices(axis).getText()).str());
    if (!axes.empty())
      flags.push_back("mesh " + join(axes, ","));
    for (unsigned rule = Batch; rule <= Zero; ++rule)
      if (has(conflict, Rule(rule)))
        flags.push_back((kFlags[rule] + " " + problem.getChoices(Rule(rule)).getText()).str());
    if (has(conflict, Split))
      flags.emplace_back("split-method NAME,...");
    if (has(conflict, Ranks))
      flags.push_back(problem.getNumbers().ranksFlag);
    if (has(conflict, GlobalBatch))
      flags.push_back("global-batch " + std::to_string(problem.getNumbers().globalBatch));
    return flags;
  }

  std::vector<std::string> listReasons() const {
    const PlanNumbers &numbers = problem.getNumbers();
    std::vector<std::string> reasons;
    if (has(conflict, FixedBatch))
      reasons.push_back(formatv("the export fixes the samples per micro-batch over all "
                                "data-parallel ranks at {0}; export with a dynamic batch dim to "
                                "allow other numbers",
                                *numbers.fixedBatch));
    bool hasShards = involves({Dp}) || (has(conflict, Ranks) && involves({Pp, Tp}));
    if (has(conflict, Ranks))
      reasons.push_back(
          formatv("the sizes of the mesh must multiply to the {0} ranks", numbers.ranks));
    if (has(conflict, GlobalBatch))
      reasons.push_back(describeSamples());
    if (hasShards && involves({Batch, FixedBatch, MicroBatches, GlobalBatch}))
      reasons.emplace_back("the batch must be a multiple of the number of data-parallel ranks");
    if (has(conflict, Schedule) && !has(conflict, Chunks))
      reasons.emplace_back("a schedule needs a pipeline axis of at least 2");
    else if (has(conflict, Schedule))
      reasons.emplace_back("a schedule allows only some numbers of chunks (docs/pipelines.md)");
    else if (has(conflict, Chunks))
      reasons.emplace_back("several chunks need a pipeline axis of at least 2");
    if (has(conflict, Zero))
      reasons.emplace_back("ZeRO stages above 0 need at least 2 data-parallel ranks");
    if (has(conflict, Split))
      reasons.push_back(formatv("the modules give {0} stages, which must equal the pipeline axis "
                                "times --num-chunks",
                                *numbers.stages));
    return reasons;
  }

  /// Explains how batches are related. Example: "a step has --batch times --micro-batches samples,
  /// and 8 x 4 is not 16".
  std::string describeSamples() const {
    std::string text = "a step has --batch times --micro-batches samples";
    if (problem.getNumbers().globalBatch > schedules::kMaxMicroBatches)
      text += formatv(", and at most {0} micro-batches", schedules::kMaxMicroBatches);
    auto batch = problem.getChoices(Batch).getNumbers();
    auto count = problem.getChoices(MicroBatches).getNumbers();
    if (has(conflict, Batch) && has(conflict, MicroBatches) && batch.size() == 1 &&
        count.size() == 1 && !problem.getChoices(Batch).isRange() &&
        !problem.getChoices(MicroBatches).isRange())
      text += formatv(", and {0} x {1} is not {2}", batch[0], count[0],
                      problem.getNumbers().globalBatch);
    return text;
  }

  /// Returns, for each flag, the values that resolve the conflict. Example: "--batch 6 or 12".
  std::vector<std::string> listFixes() const {
    std::vector<std::string> fixes;
    for (unsigned rule = Pp; rule < kRules; ++rule) {
      if (!has(conflict, Rule(rule)) || rule == Split || rule == FixedBatch)
        continue;
      std::vector<std::string> values = findValues(Rule(rule), problem.getGiven());
      if (values.empty()) // the flags have another conflict, so fix only this one
        values = findValues(Rule(rule), conflict);
      if (values.empty())
        continue;
      fixes.push_back(ps::spellFlag(getPrefix(Rule(rule))) + join(values, " or "));
    }
    return fixes;
  }

  /// Returns the flag of a rule up to its value: "batch ", "mesh pp=", "cluster h100-sxm:".
  std::string getPrefix(Rule rule) const {
    if (rule <= Tp)
      return ("mesh " + kFlags[rule] + "=").str();
    if (rule != Ranks)
      return (kFlags[rule] + " ").str();
    StringRef flag = problem.getNumbers().ranksFlag;
    return flag.take_front(flag.find_last_of(" :") + 1).str();
  }

  /// Returns at most two values of `rule` with which some plan satisfies `rules`.
  std::vector<std::string> findValues(Rule rule, Rules rules) const {
    std::vector<std::string> values;
    for (const std::string &value : listCandidates(rule))
      if (values.size() < 2 && problem.with(rule, value).isPossible(rules))
        values.push_back(value);
    llvm::sort(values, [](StringRef a, StringRef b) { return a.compare_numeric(b) < 0; });
    return values;
  }

  /// Returns values to try for a rule. The values that are nearest to the given value come first.
  std::vector<std::string> listCandidates(Rule rule) const {
    const PlanNumbers &numbers = problem.getNumbers();
    if (rule == Schedule || rule == Zero || rule == Chunks)
      return listSearchedValues(kFlags[rule]);
    std::vector<int64_t> candidates;
    int64_t given = 1;
    if (rule == Ranks || rule == GlobalBatch) {
      given = rule == Ranks ? numbers.ranks : numbers.globalBatch;
      constexpr int64_t kFarthest = 1024;
      for (int64_t d = 1; d <= kFarthest; ++d)
        for (int64_t value : {given - d, given + d})
          if (value >= 1)
            candidates.push_back(value);
    } else {
      candidates = getDivisors(rule <= Tp ? numbers.ranks : numbers.globalBatch);
      SmallVector<int64_t> ends = problem.getChoices(rule).getNumbers();
      given = ends.empty() ? 1 : ends.front();
    }
    llvm::stable_sort(candidates, [&](int64_t a, int64_t b) {
      return std::abs(a - given) < std::abs(b - given);
    });
    std::vector<std::string> texts(candidates.size());
    llvm::transform(candidates, texts.begin(),
                    [](int64_t number) { return std::to_string(number); });
    return texts;
  }

  const Problem &problem;
  Rules conflict;
};

} // namespace

Error checkConflicts(const PlanNumbers &numbers, const Constraints &constraints) {
  Problem problem(numbers, constraints);
  if (problem.isPossible(problem.getGiven()))
    return Error::success();
  return Explainer(problem, findConflict(problem, problem.getGiven())).explain();
}

} // namespace parashard::planner
