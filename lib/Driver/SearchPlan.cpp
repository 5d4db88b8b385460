// Implements searchPlan: finds a plan for a request, and explains the plan.
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "lib/Driver/PlanAdvice.h"
#include "lib/Planner/Conflicts.h"
#include "lib/Sharding/Policy.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {

llvm::ArrayRef<llvm::StringRef> getSearchedFlags() {
  static constexpr llvm::StringRef flags[] = {"mesh",     "sharding-policy", "zero",
                                              "batch",    "micro-batches",   "num-chunks",
                                              "schedule", "recompute"};
  return flags;
}

namespace {

llvm::Expected<Constraints>
readConstraints(llvm::ArrayRef<std::pair<std::string, std::string>> texts) {
  Constraints constraints;
  for (const auto &[flag, text] : texts) {
    auto fail = [&, name = flag](llvm::Error error) {
      return ps::createFlagError(name, ": " + llvm::toString(std::move(error)));
    };
    if (flag == "mesh") {
      llvm::Expected<MeshChoices> mesh = parseMeshChoices(text);
      if (!mesh)
        return fail(mesh.takeError());
      constraints.mesh = std::move(*mesh);
      continue;
    }
    llvm::Expected<Choices> choices = Choices::parse(text);
    if (!choices)
      return fail(choices.takeError());
    if (llvm::Error error = checkChoices(flag, *choices))
      return ps::createFlagError(flag, llvm::toString(std::move(error)));
    constraints.flags[flag] = std::move(*choices);
  }
  return constraints;
}

/// Restricts the pipeline to the stages that `--split-method NAME,...` names, in as few chunks as
/// the constraints allow. Does nothing if the constraints allow no such pipeline.
void fixStages(Constraints &constraints, int64_t stages, int64_t ranks) {
  auto &axes = constraints.mesh.axes;
  auto axis = llvm::find_if(axes, [](const auto &named) { return named.first == "pp"; });
  for (int64_t chunks : kSearchedChunks) {
    int64_t size = stages / chunks;
    if (size < 2 || size * chunks != stages || ranks % size != 0 ||
        !constraints.get("num-chunks").allows(chunks) ||
        (axis != axes.end() && !axis->second.allows(size)))
      continue;
    if (axis == axes.end())
      axis = axes.insert(axes.begin(), {"pp", {}});
    axis->second = llvm::cantFail(Choices::parse(std::to_string(size)));
    constraints.flags["num-chunks"] = llvm::cantFail(Choices::parse(std::to_string(chunks)));
    return;
  }
}

/// Creates the error for a search that ended before it found a plan.
llvm::Error failUnfinished(const PlanRequest &request) {
  if (request.isInterrupted && request.isInterrupted())
    return llvm::createStringError("interrupted before the search found a plan");
  return llvm::createStringError(llvm::formatv(
      "{0} {1} ended the search before it found a plan; give more seconds, "
      "or fix a part of the plan, such as {2}",
      ps::spellFlag("time-limit"), int64_t(request.timeLimit), ps::spellFlag("mesh")));
}

} // namespace

llvm::Error checkConstraints(const PlanRequest &request) {
  llvm::Expected<Constraints> constraints = readConstraints(request.constraints);
  if (!constraints)
    return constraints.takeError();
  return checkConflicts({request.ranks, request.ranksFlag, request.globalBatch, std::nullopt,
                         countNamedStages(request.options.splitMethod)},
                        *constraints);
}

/// Creates the problem of a started search. Fails if its constraints contradict each other.
static llvm::Expected<SearchProblem> makeProblem(PlanSearch &search) {
  const PlanRequest &request = search.getRequest();
  llvm::Expected<Constraints> constraints = readConstraints(request.constraints);
  if (!constraints)
    return constraints.takeError();
  if (llvm::Error error = search.checkConflicts(*constraints))
    return std::move(error);
  if (std::optional<int64_t> stages = countNamedStages(request.options.splitMethod))
    fixStages(*constraints, *stages, request.ranks);
  return search.makeProblem(std::move(*constraints));
}

/// Returns the name of a plan's policy: that of the candidate if the shardings were searched.
static std::string getPolicyName(const Candidate &candidate, const CompileOptions &options) {
  if (sharding::isInlinePolicy(candidate.policy))
    return "{...}";
  return sharding::isInlinePolicy(options.shardingPolicy) ? candidate.policy
                                                          : options.shardingPolicy;
}

/// Compares the first plan with its neighbors. If a neighbor is faster, this plan becomes the first
/// one, and is compared with its own neighbors. Returns the neighbors of the plan
/// that is first at the end.
static std::vector<Alternative> improvePlan(PlanSearch &search, const SearchProblem &problem,
                                            std::vector<Finalist> &plans) {
  constexpr int kMaxSteps = 4;
  for (int i = 0;; ++i) {
    std::optional<Finalist> faster;
    std::vector<Alternative> neighbors = explainNeighbors(search, problem, plans.front(), faster);
    if (!faster || i == kMaxSteps)
      return neighbors;
    llvm::erase_if(plans, [&](const Finalist &plan) {
      return isSamePlan(plan.estimate.candidate, faster->estimate.candidate);
    });
    plans.insert(plans.begin(), std::move(*faster));
  }
}

/// Describes the plans that a search found, and compares the first one with others.
static llvm::Expected<PlanAnswer> makeAnswer(PlanSearch &search, const SearchProblem &problem,
                                             PlanSearch::Found found) {
  PlanAnswer answer;
  answer.isInterrupted = problem.isInterrupted && problem.isInterrupted();
  if (!answer.isInterrupted) {
    answer.neighbors = improvePlan(search, problem, found.plans);
    answer.isUndivided = isUndivided(problem, found.plans.front().estimate.candidate);
  }
  for (const std::string &text : search.getRequest().whyNot) {
    if (answer.isInterrupted)
      break;
    llvm::Expected<Alternative> other = explainWhyNot(search, problem, found.plans.front(), text);
    if (!other)
      return other.takeError();
    answer.whyNot.push_back(std::move(*other));
  }
  for (Finalist &finalist : found.plans) {
    const Candidate &candidate = finalist.estimate.candidate;
    CompileOptions options = search.getCompiler().getOptions(candidate);
    std::string policy = getPolicyName(candidate, options);
    answer.plans.push_back({std::move(options), std::move(policy), std::move(finalist.price),
                            finalist.estimate.price.seconds, finalist.estimate.price.memory,
                            finalist.regret});
  }
  answer.priced = found.priced;
  answer.isComplete = found.isComplete;
  answer.memory = problem.memory;
  answer.globalBatch = problem.globalBatch;
  answer.parameters = search.getCompiler().getParameters();
  return answer;
}

namespace {

/// Enables multithreading of the context while this object exists. Loads all dialects, because only
/// one thread may load them.
class Multithreading {
public:
  explicit Multithreading(MLIRContext &context)
      : context(context), wasEnabled(context.isMultithreadingEnabled()) {
    context.loadAllAvailableDialects();
    context.enableMultithreading();
  }
  ~Multithreading() { context.enableMultithreading(wasEnabled); }

private:
  MLIRContext &context;
  bool wasEnabled;
};

} // namespace

/// Checks the parts of a request that do not depend on the model, except its constraints.
static llvm::Error checkRequest(const PlanRequest &request) {
  for (const std::string &text : request.whyNot) {
    Constraints constraints;
    if (llvm::Error error = addConstraint(constraints, text))
      return error;
  }
  if (request.options.offload == "none")
    return llvm::Error::success();
  return ps::createFlagError("offload " + request.options.offload,
                             ": a search does not predict the memory of offloaded tensors; search "
                             "without this flag, and give it to ps-compile together with the plan");
}

llvm::Expected<PlanAnswer> searchPlan(MLIRContext &context, const PlanRequest &request) {
  if (llvm::Error error = checkRequest(request))
    return std::move(error);
  Multithreading multithreading(context);
  auto begin = std::chrono::steady_clock::now();
  auto getSeconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  llvm::Expected<costs::SizedCluster> cluster = costs::findCluster(request.options.cluster);
  if (!cluster)
    return ps::createFlagError("cluster", ": " + llvm::toString(cluster.takeError()));
  PlanSearch search(context, request, cluster->cluster);
  if (failed(search.start()))
    return llvm::createStringError("the model cannot be planned");
  if (!search.getCompiler().getExportedBatch())
    return llvm::createStringError(
        "no input of the model has a batch dim, so no plan can divide a global batch; " +
        ps::spellFlag("batch-dim") + " names the batch dim of an input");
  llvm::Expected<SearchProblem> problem = makeProblem(search);
  if (!problem)
    return problem.takeError();
  llvm::Expected<PlanSearch::Found> found = search.find(*problem);
  if (!found) {
    std::string reason = llvm::toString(found.takeError());
    bool isInterrupted = request.isInterrupted && request.isInterrupted();
    return getSeconds() < problem->timeLimit && !isInterrupted
               ? createEmptyError(search, *problem, reason)
               : failUnfinished(request);
  }
  if (found->plans.empty())
    return found->isComplete ? createMisfitError(search, *problem, *found)
                             : failUnfinished(request);
  llvm::Expected<PlanAnswer> answer = makeAnswer(search, *problem, std::move(*found));
  if (answer)
    answer->seconds = getSeconds();
  return answer;
}

} // namespace parashard::driver
