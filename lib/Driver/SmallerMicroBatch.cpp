// Compiles plans with more data-parallel ranks in place of plans with smaller micro-batches.
#include "lib/Driver/SmallerMicroBatch.h"
#include "lib/Driver/FirstError.h"
#include "lib/Driver/Load.h"

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {

/// Returns the error of an import with this batch size; empty if the model can be imported.
static std::string findImportError(PlanSearch &search, int64_t batch) {
  std::string reason;
  FirstError silence(search.getContext(), reason);
  CompileOptions options = search.getRequest().options;
  options.batch = batch;
  std::vector<std::string> notes;
  if (importModel(search.getContext(), options.model, getImportOptions(options), notes))
    return "";
  return reason;
}

/// Returns the problem with `factor` times as many data-parallel ranks. Each rank then has as few
/// samples as with micro-batches that are smaller by this factor. Returns nullopt if the
/// constraints demand ZeRO, or if the cluster has too few ranks.
static std::optional<SearchProblem> multiplyRanks(const SearchProblem &problem, int64_t factor) {
  SearchProblem result = problem;
  result.ranks *= factor;
  result.globalBatch *= factor;
  std::optional<int64_t> most = problem.cluster.getMostRanks();
  if (!problem.constraints.get("zero").allows(int64_t(0)) || (most && result.ranks > *most))
    return std::nullopt;
  result.constraints.flags["zero"] = llvm::cantFail(Choices::parse("0"));
  result.constraints.flags.erase("batch");
  Choices sizes;
  for (auto &[axis, choices] : result.constraints.mesh.axes)
    if (axis == "dp")
      sizes = std::exchange(choices, Choices());
  result.getTable = [getTable = problem.getTable, sizes, factor](const Candidate &candidate,
                                                                 const costs::Cluster &cluster) {
    bool isAllowed = candidate.dp % factor == 0 && sizes.allows(candidate.dp / factor);
    return isAllowed ? getTable(candidate, cluster) : nullptr;
  };
  return result;
}

static std::optional<Candidate> findPlan(PlanSearch &search, const SearchProblem &problem,
                                         int64_t factor) {
  std::optional<SearchProblem> multiplied = multiplyRanks(problem, factor);
  if (!multiplied)
    return std::nullopt;
  llvm::Expected<PlanSearch::Found> found = search.find(*multiplied);
  if (!found)
    return llvm::consumeError(found.takeError()), std::nullopt;
  if (found->plans.empty())
    return std::nullopt;
  Candidate plan = found->plans.front().estimate.candidate;
  plan.dp /= factor;
  return plan;
}

/// Returns the sizes of smaller micro-batches that the constraints allow, in ascending order.
static SmallVector<int64_t> listBatches(const SearchProblem &problem) {
  SmallVector<int64_t> batches;
  int64_t fixed = problem.fixedBatch.value_or(0);
  for (int64_t batch = 1; batch <= fixed / 2; ++batch)
    if (fixed % batch == 0 && problem.constraints.get("batch").allows(batch) &&
        problem.constraints.get("micro-batches").allows(problem.globalBatch / batch))
      batches.push_back(batch);
  return batches;
}

std::optional<SmallerMicroBatch> findSmallerMicroBatch(PlanSearch &search,
                                                       const SearchProblem &problem) {
  SmallVector<int64_t> batches = listBatches(problem);
  if (batches.empty())
    return std::nullopt;
  SmallerMicroBatch result{batches.back(), "", std::nullopt};
  // Uses a binary search, because smaller micro-batches need less memory.
  ArrayRef<int64_t> left = batches;
  while (!left.empty()) {
    size_t middle = left.size() / 2;
    std::optional<Candidate> plan = findPlan(search, problem, *problem.fixedBatch / left[middle]);
    if (plan)
      result = {left[middle], "", plan};
    left = plan ? left.drop_front(middle + 1) : left.take_front(middle);
  }
  result.reason = findImportError(search, result.batch);
  if (result.reason.empty()) // the export does not exclude this size
    return std::nullopt;
  return result;
}

} // namespace parashard::driver
