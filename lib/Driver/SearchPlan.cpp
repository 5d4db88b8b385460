// Searches plans: compiles small programs for the class tables, and the best plans for their exact
// prices.
#include "dialects/ps/Ps.h"
#include "dialects/ps/Refusal.h"
#include "lib/Driver/Load.h"
#include "lib/IR/OpTimes.h"
#include "lib/Memory/Peak.h"
#include "lib/Pipeline/StagePartition.h"
#include "lib/Planner/Conflicts.h"
#include "lib/Planner/Search.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "lib/Sharding/Explain.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "parashard/Driver.h"
#include "parashard/Planner.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {

llvm::json::Object PlanPrice::toJson() const {
  llvm::json::Object parts;
  for (size_t i = 0; i < kParts; ++i)
    parts[getName(Part(i))] = breakdown[i];
  return llvm::json::Object{{"step_s", seconds},
                            {"breakdown", std::move(parts)},
                            {"memory_bytes", memoryBytes},
                            {"mfu", mfu},
                            {"limits", limits}};
}

llvm::StringRef getPartName(size_t part) { return getName(Part(part)); }

llvm::Expected<PlanPrice> pricePlan(ModuleOp module) {
  FailureOr<costs::Cluster> cluster = ir::findCluster(module);
  if (failed(cluster))
    return llvm::createStringError("the cluster cannot be read");
  llvm::Expected<std::optional<StepTime>> step = predictStep(module, *cluster);
  if (!step)
    return step.takeError();
  if (!*step)
    return llvm::createStringError("the program has no training step to price");
  PlanPrice price;
  price.seconds = (*step)->seconds;
  price.mfu = (*step)->mfu;
  price.limits = getName((*step)->parts.getLargest()).str();
  for (size_t i = 0; i < kParts; ++i)
    price.breakdown.push_back((*step)->parts[Part(i)]);
  for (const memory::MemoryPeak &peak : memory::findPeaks(module))
    price.memoryBytes = std::max(price.memoryBytes, peak.arenaBytes);
  return price;
}

llvm::ArrayRef<llvm::StringRef> getSearchedFlags() {
  static constexpr llvm::StringRef flags[] = {"mesh",     "sharding-policy", "zero",
                                              "batch",    "micro-batches",   "num-chunks",
                                              "schedule", "recompute"};
  return flags;
}

namespace {

/// Returns the number of stages that the modules of `--split-method NAME,...` begin; nullopt for
/// another method.
std::optional<int64_t> countStages(llvm::StringRef method) {
  if (method.empty() || pipeline::isBalanced(method))
    return std::nullopt;
  return int64_t(method.count(',')) + 2;
}

/// Compiles the programs of a search, and keeps those that its tables are read from.
class Compiler {
public:
  Compiler(MLIRContext &context, const PlanRequest &request, const costs::Cluster &cluster)
      : context(context), request(request), cluster(cluster) {}

  /// Imports the model as exported. Finds its batch, and whether the export fixes it. Returns
  /// failure after a diagnostic.
  LogicalResult start() {
    std::vector<std::string> notes, freeNotes;
    import::ImportOptions exported = getImportOptions(request.options), doubled = exported;
    OwningOpRef<ModuleOp> module = importModel(context, request.options.model, exported, notes);
    CompileOptions options = request.options;
    options.microBatches = 1;
    if (!module)
      return printNotes(notes), failure();
    parameters = countParameters(*module);
    if (failed(runWalk(*module, options, {.stopAfter = ps::Level::Training})))
      return printNotes(notes), failure();
    exportedBatch = findBatch(*module);
    // Binds the batch, so that no note is about its size at export, which a plan does not keep.
    doubled.batch = exportedBatch.value_or(0);
    doubled.batchFactor = 2;
    {
      ScopedDiagnosticHandler silence(&context, [](Diagnostic &) { return success(); });
      isFixed = !importModel(context, request.options.model, doubled, freeNotes);
    }
    printNotes(isFixed ? notes : freeNotes);
    return checkSplit(*module);
  }

  std::optional<int64_t> getFixedBatch() const { return isFixed ? exportedBatch : std::nullopt; }

  /// Data-parallel ranks of the program of a table: two stand for any number, unless the export
  /// fixes the batch.
  int64_t getTableShards(const Candidate &candidate) const { return isFixed ? candidate.dp : 2; }

  const ClassTable *getTable(const Candidate &candidate) {
    Key key{candidate.tp,     getTableShards(candidate), candidate.samples,
            candidate.policy, candidate.recompute,       candidate.zero};
    auto [program, isNew] = programs.try_emplace(key);
    if (isNew)
      program->second = compileForTable(candidate);
    if (!program->second)
      return nullptr;
    SmallVector<ir::AxisSize> axes;
    for (char axis : candidate.order)
      axes.push_back(
          {StringAttr::get(&context, std::string(1, axis) + "p"), axis == 'p'   ? candidate.pp
                                                                  : axis == 'd' ? candidate.dp
                                                                                : candidate.tp});
    llvm::Expected<ClassTable> table = readClassTable(*program->second, cluster, axes);
    if (!table)
      return keepFailure(getOptions(candidate), llvm::toString(table.takeError())), nullptr;
    last = std::move(*table);
    return &last;
  }

  CompileOptions getOptions(const Candidate &candidate) const {
    CompileOptions options = request.options;
    options.mesh = candidate.getMesh();
    options.batch = candidate.samples * candidate.dp;
    options.microBatches = candidate.microBatches;
    options.numChunks = candidate.chunks;
    options.schedule = candidate.pp > 1 ? candidate.schedule : "";
    llvm::Expected<schedules::PlacementKind> placement = schedules::findPlacement(options.schedule);
    options.placement = placement && *placement == schedules::PlacementKind::V ? "v" : "loop";
    llvm::consumeError(placement.takeError());
    options.zero = candidate.zero;
    options.recompute = candidate.recompute;
    options.shardingPolicy = candidate.policy;
    return options;
  }

  /// Compiles the model, or its shrunk form, up to the addresses, without diagnostics. Returns null
  /// if the model cannot be compiled with these options; `getFailure` then has the reason.
  OwningOpRef<ModuleOp> compile(const CompileOptions &options, bool isShrunk) {
    std::string reason;
    ScopedDiagnosticHandler silence(&context, [&](Diagnostic &diagnostic) {
      if (reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
        reason = diagnostic.str();
      return success();
    });
    OwningOpRef<ModuleOp> module;
    if (llvm::Error error = checkOptions(options))
      reason = llvm::toString(std::move(error));
    else if ((module = import(*options.batch, isShrunk)) &&
             failed(runWalk(*module, options, {.stopAfter = ps::Level::Placed})))
      module = nullptr;
    if (!module)
      keepFailure(options, reason);
    return module;
  }

  int64_t getParameters() const { return parameters; }
  /// Returns why the first plan that could not be compiled failed; empty if there is none. Example:
  /// "; with --mesh tp=4 --batch 1: the batch dim takes sizes from 2".
  llvm::StringRef getFailure() const { return failureReason; }

private:
  void keepFailure(const CompileOptions &options, llvm::StringRef reason) {
    if (failureReason.empty() && !reason.empty())
      failureReason =
          llvm::formatv("; with --mesh {0} --batch {1}: {2}", options.mesh, *options.batch, reason);
  }

  /// Checks that the modules that `--split-method` names begin stages.
  LogicalResult checkSplit(ModuleOp module) {
    std::optional<int64_t> stages = countStages(request.options.splitMethod);
    if (!stages)
      return success();
    CompileOptions options = request.options;
    options.microBatches = 1;
    options.mesh = "pp=" + std::to_string(*stages);
    OwningOpRef<ModuleOp> copy = module.clone();
    return runWalk(*copy, options, {.stopAfter = ps::Level::Planned});
  }

  using Key = std::tuple<int64_t, int64_t, int64_t, std::string, std::string, int64_t>;

  /// Returns the size of the batch dim of the first input that has one.
  static std::optional<int64_t> findBatch(ModuleOp module) {
    for (auto function : module.getOps<func::FuncOp>())
      for (unsigned i = 0; i < function.getNumArguments(); ++i) {
        auto type = cast<RankedTensorType>(function.getArgument(i).getType());
        auto marked = function.getArgAttrOfType<IntegerAttr>(i, kBatchDimMark);
        int64_t dim = marked ? marked.getInt() : 0;
        if (dim >= 0 && dim < type.getRank())
          return type.getDimSize(dim);
      }
    return std::nullopt;
  }

  OwningOpRef<ModuleOp> compileForTable(const Candidate &candidate) {
    Candidate table = candidate;
    table.pp = 1;
    table.dp = getTableShards(candidate);
    table.order = "pdt";
    table.microBatches = table.chunks = 1;
    table.schedule = "1f1b";
    return compile(getOptions(table), /*isShrunk=*/true);
  }

  /// Returns a copy of the model with a batch, on request without its repeated blocks. Imports each
  /// batch once.
  OwningOpRef<ModuleOp> import(int64_t batch, bool isShrunk) {
    OwningOpRef<ModuleOp> &module = imported[{batch, isShrunk}];
    if (!module) {
      CompileOptions options = request.options;
      options.batch = batch;
      std::vector<std::string> notes;
      module = importModel(context, options.model, getImportOptions(options), notes);
      if (module && isShrunk) {
        PassManager pm(&context, ModuleOp::getOperationName());
        pm.addPass(planner::createShrinkRepeatsPass());
        if (failed(pm.run(*module)))
          module = nullptr;
      }
    }
    return module ? OwningOpRef<ModuleOp>(module->clone()) : nullptr;
  }

  MLIRContext &context;
  const PlanRequest &request;
  const costs::Cluster &cluster;
  std::optional<int64_t> exportedBatch;
  bool isFixed = false;
  int64_t parameters = 0;
  std::string failureReason;
  std::map<std::pair<int64_t, bool>, OwningOpRef<ModuleOp>> imported; ///< by batch, and if shrunk
  std::map<Key, OwningOpRef<ModuleOp>> programs;
  ClassTable last;
};

/// Candidates are compiled for their exact price if the search has them within this factor of the
/// best plan.
constexpr double kMargin = 1.03;
/// Most candidates to compile. More are compiled only until one fits the memory.
constexpr size_t kMostFinalists = 4;

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
  for (int64_t chunks : {1, 2, 4}) {
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

llvm::Error checkConflicts(const PlanRequest &request, const Constraints &constraints,
                           std::optional<int64_t> fixedBatch) {
  return planner::checkConflicts({request.ranks, request.ranksFlag, request.globalBatch, fixedBatch,
                                  countStages(request.options.splitMethod)},
                                 constraints);
}

/// Compiles the best plans of a search, and prices their programs. Returns those that fit the
/// memory, fastest first, then the estimates of the others.
llvm::Expected<std::vector<Plan>> compilePlans(Compiler &compiler, const SearchResult &found,
                                               double memory) {
  std::vector<Plan> plans, estimates;
  size_t compiled = 0;
  double best = std::numeric_limits<double>::infinity();
  for (const PricedCandidate &each : found.plans) {
    Plan plan{compiler.getOptions(each.candidate), std::nullopt, each.price.seconds,
              each.price.memory};
    if (each.price.seconds > kMargin * best || (compiled >= kMostFinalists && !plans.empty())) {
      estimates.push_back(std::move(plan));
      continue;
    }
    ++compiled;
    OwningOpRef<ModuleOp> module = compiler.compile(plan.options, /*isShrunk=*/false);
    if (!module)
      continue;
    llvm::Expected<PlanPrice> price = pricePlan(*module);
    if (!price)
      return price.takeError();
    if (double(price->memoryBytes) > memory)
      continue;
    best = std::min(best, price->seconds);
    plan.price = std::move(*price);
    plans.push_back(std::move(plan));
  }
  llvm::stable_sort(
      plans, [](const Plan &a, const Plan &b) { return a.price->seconds < b.price->seconds; });
  if (!plans.empty())
    llvm::append_range(plans, estimates);
  return plans;
}

llvm::Error failAtTimeLimit(const PlanRequest &request) {
  return llvm::createStringError(
      llvm::formatv("--time-limit {0} ended the search before it found a plan; give more seconds, "
                    "or fix a part of the plan, such as --mesh",
                    request.timeLimit));
}

llvm::Error failWithoutPlan(const SearchResult &found, double memory, llvm::StringRef failure) {
  if (!found.leanest)
    return llvm::createStringError("no plan can be compiled" + failure);
  const Candidate &leanest = found.leanest->candidate;
  return llvm::createStringError(llvm::formatv(
      "no plan fits the memory of a rank, {0}: the leanest needs about {1} (--mesh {2} --zero {3} "
      "--recompute {4}, {5} micro-batches); use more ranks, or allow more memory",
      sharding::formatBytes(int64_t(memory)),
      sharding::formatBytes(int64_t(found.leanest->price.memory)), leanest.getMesh(), leanest.zero,
      leanest.recompute, leanest.microBatches));
}

} // namespace

llvm::Error checkConstraints(const PlanRequest &request) {
  llvm::Expected<Constraints> constraints = readConstraints(request.constraints);
  if (!constraints)
    return constraints.takeError();
  return checkConflicts(request, *constraints, std::nullopt);
}

llvm::Expected<PlanAnswer> searchPlan(MLIRContext &context, const PlanRequest &request) {
  auto begin = std::chrono::steady_clock::now();
  llvm::Expected<costs::SizedCluster> cluster = costs::findCluster(request.options.cluster);
  if (!cluster)
    return ps::createFlagError("cluster", ": " + llvm::toString(cluster.takeError()));
  llvm::Expected<Constraints> constraints = readConstraints(request.constraints);
  if (!constraints)
    return constraints.takeError();
  Compiler compiler(context, request, cluster->cluster);
  if (failed(compiler.start()))
    return llvm::createStringError("the model cannot be planned");
  if (llvm::Error error = checkConflicts(request, *constraints, compiler.getFixedBatch()))
    return std::move(error);
  if (std::optional<int64_t> stages = countStages(request.options.splitMethod))
    fixStages(*constraints, *stages, request.ranks);
  SearchProblem problem;
  problem.cluster = cluster->cluster;
  problem.ranks = request.ranks;
  problem.globalBatch = request.globalBatch;
  problem.fixedBatch = compiler.getFixedBatch();
  const costs::Device &device = cluster->cluster.device;
  problem.memory = request.memory.value_or(device.memory - device.reserve);
  problem.constraints = std::move(*constraints);
  problem.timeLimit = request.timeLimit;
  problem.getTable = [&](const Candidate &candidate) { return compiler.getTable(candidate); };
  problem.getTableShards = [&](const Candidate &c) { return compiler.getTableShards(c); };
  auto searchBegin = std::chrono::steady_clock::now();
  llvm::Expected<SearchResult> found = search(problem);
  std::chrono::duration<double> searched = std::chrono::steady_clock::now() - searchBegin;
  if (!found) {
    std::string reason = llvm::toString(found.takeError());
    return searched.count() < problem.timeLimit
               ? llvm::createStringError(reason + compiler.getFailure())
               : failAtTimeLimit(request);
  }
  llvm::Expected<std::vector<Plan>> plans = compilePlans(compiler, *found, problem.memory);
  if (!plans)
    return plans.takeError();
  if (plans->empty())
    return found->isComplete ? failWithoutPlan(*found, problem.memory, compiler.getFailure())
                             : failAtTimeLimit(request);
  PlanAnswer answer;
  answer.plans = std::move(*plans);
  answer.priced = found->priced;
  answer.isComplete = found->isComplete;
  answer.parameters = compiler.getParameters();
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  answer.seconds = seconds.count();
  return answer;
}

} // namespace parashard::driver
