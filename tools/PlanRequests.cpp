// Builds the requests of plan searches, and prints their answers.
#include "tools/PlanRequests.h"
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Quantity.h"
#include "lib/Planner/Constraints.h"
#include "lib/Sharding/Explain.h"
#include "lib/Support/Bytes.h"
#include "shared/Counts.h"
#include "tools/Messages.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace parashard::driver;

namespace parashard {

using ps::createFlagError;

llvm::Expected<GivenCluster> findGivenCluster(llvm::StringRef text) {
  llvm::Expected<std::optional<LocalCluster>> local = parseLocalCluster(text);
  if (!local)
    return local.takeError();
  if (*local)
    return GivenCluster{"cpu", (*local)->ranks, std::nullopt};
  llvm::Expected<costs::SizedCluster> found = costs::findCluster(text);
  if (!found)
    return createFlagError("cluster", ": " + llvm::toString(found.takeError()));
  llvm::StringRef name = found->ranks ? text.rsplit(':').first : text;
  return GivenCluster{name.str(), found->ranks, std::move(found->cluster)};
}

llvm::Error setFixedFlags(FlagTable &table) {
  for (const auto &[flag, text] : table.getConstraints()) {
    llvm::StringRef value = text;
    if (llvm::is_contained(getSearchedFlags(), flag))
      continue;
    if (value == "*" || value.contains('|') || value.starts_with("<=") || value.starts_with(">="))
      return createFlagError(flag,
                             " takes one value, not '" + text + "': the search does not choose it");
    if (llvm::Error error = table.set(flag, text))
      return error;
  }
  return llvm::Error::success();
}

namespace {

/// Checks options on the mesh dp=2,tp=2, on which each valid value of a flag passes the checks.
llvm::Error checkOnAnyMesh(const CompileOptions &given) {
  CompileOptions options = given;
  options.mesh = "dp=2,tp=2";
  options.ranks.reset();
  options.cluster.clear();
  options.numChunks = 1;
  return checkOptions(options);
}

/// Checks a value of a searched flag as ps-compile would.
llvm::Error checkValue(FlagTable &table, CompileFlags &compile, llvm::StringRef flag,
                       llvm::StringRef value) {
  const CompileOptions given = compile.options;
  llvm::Error error = table.set(flag, value);
  if (!error)
    error = finishCompileFlags(table, compile);
  if (!error)
    error = checkOnAnyMesh(compile.options);
  compile.options = given;
  return error;
}

} // namespace

llvm::Error checkValues(FlagTable &table, CompileFlags &compile) {
  for (const auto &[flag, text] : table.getConstraints()) {
    if (flag == "mesh" || !llvm::is_contained(getSearchedFlags(), flag))
      continue;
    llvm::Expected<planner::Choices> choices = planner::Choices::parse(text);
    if (!choices)
      return createFlagError(flag, ": " + llvm::toString(choices.takeError()));
    for (llvm::StringRef value : choices->getValues())
      if (llvm::Error error = checkValue(table, compile, flag, value))
        return error;
  }
  return checkOnAnyMesh(compile.options);
}

namespace {

/// Sets the number of ranks of the request from `--cluster` or `--ranks`, and records which of the
/// two flags gave this number.
llvm::Error findRanks(const CompileOptions &options, const GivenCluster &cluster,
                      PlanRequest &request) {
  // The search also compiles programs with twice as many ranks as the tensor axis (for the work of
  // layers), and a mesh has at most 2^20 ranks.
  constexpr int64_t kMax = int64_t(1) << 19;
  if (!cluster.ranks && !options.ranks)
    return llvm::createStringError(
        "the number of ranks is missing; give --cluster NAME:RANKS or --ranks N");
  if (cluster.ranks && options.ranks && *cluster.ranks != *options.ranks)
    return createFlagError("ranks " + llvm::Twine(*options.ranks),
                           " contradicts --cluster " + options.cluster + " with " +
                               describeCount(*cluster.ranks, "rank"));
  request.ranks = cluster.ranks ? *cluster.ranks : *options.ranks;
  request.ranksFlag =
      cluster.ranks ? "cluster " + options.cluster : "ranks " + std::to_string(request.ranks);
  int64_t most =
      std::min(kMax, cluster.cluster ? cluster.cluster->getMostRanks().value_or(kMax) : kMax);
  if (request.ranks > most)
    return createFlagError(request.ranksFlag, ": a mesh on " + cluster.name + " has at most " +
                                                  describeCount(most, "rank"));
  return llvm::Error::success();
}

/// Reads the memory limit per rank. Warns if a device of the cluster has less memory.
llvm::Error readMemory(llvm::StringRef flag, llvm::StringRef text, const GivenCluster &cluster,
                       PlanRequest &request) {
  if (text.empty())
    return llvm::Error::success();
  llvm::Expected<int64_t> bytes = support::parseBytes(text);
  if (!bytes)
    return createFlagError(flag, ": " + llvm::toString(bytes.takeError()));
  request.memory = double(*bytes);
  if (cluster.cluster && *request.memory > cluster.cluster->device.memory)
    printMessage(Severity::Warning,
                 ps::spellFlag(flag) + " " + text + " is more than the " +
                     sharding::formatBytes(int64_t(cluster.cluster->device.memory)) +
                     " of a device of --cluster " + cluster.name + "; the plan may not fit there");
  return llvm::Error::success();
}

} // namespace

llvm::Expected<PlanRequest> makeRequest(const FlagTable &table, const CompileFlags &compile,
                                        const GivenCluster &cluster, llvm::StringRef memoryFlag,
                                        llvm::StringRef memory) {
  // The search lists all divisors of the global batch.
  constexpr int64_t kMaxSamples = int64_t(1) << 22;
  PlanRequest request;
  request.options = compile.options;
  request.memoryFlag = memoryFlag.str();
  if (llvm::Error error = findRanks(compile.options, cluster, request))
    return std::move(error);
  request.options.ranks.reset();
  request.options.cluster = cluster.name; // without ranks: the search also compiles smaller meshes
  request.globalBatch = compile.globalBatch.value_or(0);
  if (request.globalBatch > kMaxSamples)
    return createFlagError("global-batch " + llvm::Twine(request.globalBatch),
                           ": a search takes at most " + llvm::Twine(kMaxSamples) + " samples");
  if (llvm::Error error = readMemory(memoryFlag, memory, cluster, request))
    return std::move(error);
  request.constraints = table.getConstraints();
  llvm::erase_if(request.constraints, [](const auto &constraint) {
    return !llvm::is_contained(getSearchedFlags(), constraint.first);
  });
  if (llvm::Error error = checkConstraints(request))
    return std::move(error);
  if (cluster.cluster)
    return request;
  llvm::Expected<std::string> measured = measureMachine(request.ranks, printReport);
  if (!measured)
    return measured.takeError();
  request.options.cluster = *measured;
  return request;
}

llvm::Error setPlanFlags(FlagTable &table, const CompileOptions &plan,
                         const GivenCluster &cluster) {
  for (const auto &[flag, text] : std::initializer_list<std::pair<llvm::StringRef, std::string>>{
           {"mesh", plan.mesh},
           {"sharding-policy", plan.shardingPolicy},
           {"zero", std::to_string(plan.zero)},
           {"batch", std::to_string(*plan.batch)},
           {"micro-batches", std::to_string(plan.microBatches)},
           {"num-chunks", std::to_string(plan.numChunks)},
           {"schedule", plan.schedule},
           {"recompute", plan.recompute},
           {"target", plan.target},
           {"cluster", cluster.name}})
    if (llvm::Error error = table.set(flag, text))
      return error;
  return llvm::Error::success();
}

PlanPrediction makePrediction(const Plan &plan, const PlanAnswer &answer,
                              const GivenCluster &cluster, int64_t ranks) {
  return {plan.price->seconds, plan.price->memoryBytes, plan.price->mfu, cluster.name, ranks,
          answer.globalBatch,  answer.parameters};
}

namespace {

std::string describeMemory(double bytes) { return sharding::formatBytes(int64_t(bytes)); }

std::vector<std::string> makeRow(const Plan &plan) {
  const CompileOptions &o = plan.options;
  std::string schedule = o.schedule.empty() ? "-" : o.schedule;
  if (o.numChunks > 1)
    schedule += " x" + std::to_string(o.numChunks);
  return {plan.price ? costs::printSeconds(plan.price->seconds) : "-",
          plan.price ? sharding::formatBytes(plan.price->memoryBytes) : "-",
          costs::printSeconds(plan.estimatedSeconds) + ", " + describeMemory(plan.estimatedMemory),
          o.mesh,
          plan.policy,
          std::to_string(o.zero),
          std::to_string(*o.batch),
          std::to_string(o.microBatches),
          schedule,
          o.recompute};
}

void printBreakdown(const PlanPrice &best, llvm::raw_ostream &os) {
  os << llvm::formatv("the first plan: {0} per step, {1:f1} % of the peak rate (MFU); "
                      "largest part: {2}\n",
                      costs::printSeconds(best.seconds), 100 * best.mfu, best.largestPart);
  for (size_t i = 0; i < best.breakdown.size(); ++i)
    if (1000 * best.breakdown[i] > best.seconds)
      os << llvm::formatv("  {0,-30} {1,9} {2,6:f1} %\n", getPartName(i),
                          costs::printSeconds(best.breakdown[i]),
                          100 * best.breakdown[i] / best.seconds);
}

/// Prints why the first plan is preferred to a faster one, or by how much the next plan is slower.
void printDistance(const PlanAnswer &answer, llvm::raw_ostream &os) {
  const Plan &first = answer.plans.front();
  const Plan *fastest = &first, *next = nullptr;
  for (const Plan &plan : llvm::ArrayRef(answer.plans).drop_front()) {
    if (!plan.price)
      break;
    if (plan.price->seconds < fastest->price->seconds)
      fastest = &plan;
    if (!next || plan.price->seconds < next->price->seconds)
      next = &plan;
  }
  if (!next)
    return;
  if (fastest != &first)
    os << llvm::formatv(
        "the plan with {0} is equally fast, within the error of the prediction. If a figure of the "
        "cluster is wrong by {2:f0} %, this plan is at most {1:f1} % slower than the best plan, "
        "and the first plan is at most {3:f1} % slower\n",
        fastest->options.mesh, 100 * fastest->regret.value_or(0), 100 * kFigureError,
        100 * first.regret.value_or(0));
  else if (double slower = next->price->seconds / first.price->seconds - 1; slower < 0.0005)
    os << "the next plan is equally fast\n";
  else
    os << llvm::formatv("the next plan is {0:f1} % slower\n", 100 * slower);
}

void printAlternatives(llvm::StringRef title, llvm::ArrayRef<Alternative> alternatives,
                       llvm::raw_ostream &os) {
  if (alternatives.empty())
    return;
  os << "\n" << title << "\n";
  std::vector<std::vector<std::string>> rows = {{"change", "step", "memory", "why not"}};
  for (const Alternative &each : alternatives)
    rows.push_back({each.change, each.seconds > 0 ? costs::printSeconds(each.seconds) : "-",
                    each.memory > 0 ? describeMemory(each.memory) : "-", each.reason});
  sharding::printTable(rows, os);
}

} // namespace

void printPlans(const PlanAnswer &answer, size_t most, llvm::raw_ostream &os) {
  os << llvm::formatv("{0} plan{1} priced in {2:f1} s{3}\n\n", answer.priced,
                      answer.priced == 1 ? "" : "s", answer.seconds,
                      answer.isInterrupted ? "; interrupted"
                      : answer.isComplete  ? ""
                                           : "; the time limit ended the search");
  std::vector<std::vector<std::string>> rows = {{"step", "memory", "estimates", "mesh", "policy",
                                                 "zero", "batch", "micro-batches", "schedule",
                                                 "recompute"}};
  for (const Plan &plan : llvm::ArrayRef(answer.plans).take_front(most))
    rows.push_back(makeRow(plan));
  sharding::printTable(rows, os);
  os << "\nstep, memory: predicted from the compiled plan (level placed); estimates: made by the "
        "search before it compiles\n\n";
  if (answer.isUndivided)
    printMessage(Severity::Warning,
                 "all ranks of the tensor axis do the same work, because every split of the model "
                 "is slower or impossible. If fewer ranks are as fast, use fewer. If the global "
                 "batch limits the data axis, change " +
                     ps::spellFlag("global-batch"));
  printBreakdown(*answer.plans.front().price, os);
  printDistance(answer, os);
  printAlternatives("plans that differ from the first in one choice (estimates)", answer.neighbors,
                    os);
  printAlternatives("plans with the constraints of --why-not (compiled)", answer.whyNot, os);
}

} // namespace parashard
