// Compiles small programs for class tables, and whole programs for exact prices.
#include "lib/Driver/PlanCompiler.h"
#include "dialects/ps/Ps.h"
#include "lib/Driver/Load.h"
#include "lib/Driver/SearchShardings.h"
#include "lib/Pipeline/StagePartition.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "parashard/Planner.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::planner;

namespace parashard::driver {

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

std::optional<int64_t> countNamedStages(llvm::StringRef method) {
  if (method.empty() || pipeline::isBalanced(method))
    return std::nullopt;
  return int64_t(method.count(',')) + 2;
}

/// Lowers a module to a level. ps-compile verifies the plan that is chosen.
static LogicalResult lower(ModuleOp module, const CompileOptions &options, ps::Level level) {
  WalkOptions walk;
  walk.stopAfter = level;
  walk.onlyTransforms = true;
  return runWalk(module, options, walk);
}

LogicalResult PlanCompiler::start(bool isQuiet) {
  std::vector<std::string> notes;
  auto print = [&] {
    if (!isQuiet)
      printNotes(notes);
  };
  import::ImportOptions exported = getImportOptions(request.options);
  OwningOpRef<ModuleOp> module = importModel(context, request.options.model, exported, notes);
  CompileOptions options = request.options;
  options.microBatches = 1;
  if (!module)
    return print(), failure();
  parameters = countParameters(*module);
  if (llvm::Expected<costs::SizedCluster> cluster = costs::findCluster(request.options.cluster))
    mostRanks = cluster->cluster.getMostRanks();
  else
    llvm::consumeError(cluster.takeError()); // reported by the search
  if (failed(lower(*module, options, ps::Level::Training)))
    return print(), failure();
  exportedBatch = findBatch(*module);
  leastBatch = mostBatch = exportedBatch.value_or(1);
  // With the batch bound, no note is about its size at export, which a plan does not keep.
  isFixed = !findOtherBatch(notes);
  print();
  return checkSplit(*module);
}

/// Imports the model with another batch than that of the export; the export may have a least or a
/// most size. Replaces `notes` by those of this import. Returns false if the export or a flag fixes
/// the batch.
bool PlanCompiler::findOtherBatch(std::vector<std::string> &notes) {
  int64_t batch = leastBatch;
  bool isFound = false;
  // The global batch is mostly possible; then no other batch is tried again.
  for (int64_t other : {request.globalBatch, 2 * batch, batch + 1, batch - 1})
    if (!isFound && other > 0 && other != batch)
      isFound = allowsBatch(other, &notes);
  failureReason.clear();
  return isFound;
}

bool PlanCompiler::allowsBatch(int64_t batch, std::vector<std::string> *notes) {
  if (leastBatch <= batch && batch <= mostBatch)
    return true;
  auto [found, isNew] = triedBatches.try_emplace(batch);
  std::string &reason = found->second;
  if (isNew) {
    ScopedDiagnosticHandler silence(&context, [&](Diagnostic &diagnostic) {
      reason = reason.empty() ? diagnostic.str() : reason;
      return success();
    });
    CompileOptions options = request.options;
    options.batch = batch;
    std::vector<std::string> ofBatch;
    OwningOpRef<ModuleOp> &module = imported[{batch, /*isShrunk=*/false}];
    module = importModel(context, options.model, getImportOptions(options), ofBatch);
    if (module && notes)
      *notes = std::move(ofBatch);
    if (!module)
      imported.erase({batch, /*isShrunk=*/false});
  }
  if (!imported.count({batch, /*isShrunk=*/false})) {
    failureReason = failureReason.empty() ? "; " + reason : failureReason;
    return false;
  }
  leastBatch = std::min(leastBatch, batch);
  mostBatch = std::max(mostBatch, batch);
  return true;
}

/// Checks that the modules that `--split-method` names begin stages.
LogicalResult PlanCompiler::checkSplit(ModuleOp module) {
  std::optional<int64_t> stages = countNamedStages(request.options.splitMethod);
  if (!stages)
    return success();
  CompileOptions options = request.options;
  options.microBatches = 1;
  options.mesh = "pp=" + std::to_string(*stages);
  OwningOpRef<ModuleOp> copy = module.clone();
  return lower(*copy, options, ps::Level::Planned);
}

const ClassTable *PlanCompiler::getTable(const Candidate &candidate,
                                         const costs::Cluster &cluster) {
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
        {StringAttr::get(&context, std::string(1, axis) + "p"), candidate.getSize(axis)});
  llvm::Expected<ClassTable> table = readClassTable(*program->second, cluster, axes);
  if (!table)
    return keepFailure(getOptions(candidate), llvm::toString(table.takeError())), nullptr;
  last = std::move(*table);
  return &last;
}

CompileOptions PlanCompiler::getOptions(const Candidate &candidate) const {
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
  auto policy = policies.find(getPolicyKey(candidate));
  bool isSearched = policy != policies.end() && policy->second;
  options.shardingPolicy = isSearched ? *policy->second : candidate.policy;
  return options;
}

void PlanCompiler::keepFailure(const CompileOptions &options, llvm::StringRef reason) {
  if (failureReason.empty() && !reason.empty())
    failureReason =
        llvm::formatv("; with --mesh {0} --batch {1}: {2}", options.mesh, *options.batch, reason);
}

OwningOpRef<ModuleOp> PlanCompiler::compile(const CompileOptions &options, bool isShrunk) {
  std::string reason;
  ScopedDiagnosticHandler silence(&context, [&](Diagnostic &diagnostic) {
    if (reason.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      reason = diagnostic.str();
    return success();
  });
  OwningOpRef<ModuleOp> module;
  if (llvm::Error error = checkOptions(options))
    reason = llvm::toString(std::move(error));
  else
    module = import(*options.batch, isShrunk);
  if (module && failed(lower(*module, options, ps::Level::Placed)))
    module = nullptr;
  if (!module)
    keepFailure(options, reason);
  return module;
}

OwningOpRef<ModuleOp> PlanCompiler::compileForTable(const Candidate &candidate) {
  Candidate table = candidate;
  table.pp = 1;
  table.dp = getTableShards(candidate);
  table.order = "pdt";
  table.microBatches = table.chunks = 1;
  table.schedule = "1f1b";
  searchPolicy(table);
  // Without a split, all ranks of the tensor axis would compute the same.
  if (policies.at(getPolicyKey(table)) == "{}")
    return nullptr;
  return compile(getOptions(table), /*isShrunk=*/true);
}

static bool areValid(const CompileOptions &options) {
  llvm::Error error = checkOptions(options);
  bool valid = !error;
  llvm::consumeError(std::move(error));
  return valid;
}

/// Searches the shardings of a candidate's policy, if the policy is one that searches. The small
/// program of a table stands for all layouts with its tensor axis and samples.
void PlanCompiler::searchPolicy(const Candidate &candidate) {
  auto [found, isNew] = policies.try_emplace(getPolicyKey(candidate));
  CompileOptions options = getOptions(candidate);
  if (!isNew || !areValid(options))
    return;
  ScopedDiagnosticHandler silence(&context, [](Diagnostic &) { return success(); });
  if (OwningOpRef<ModuleOp> module = import(*options.batch, /*isShrunk=*/true))
    found->second = searchShardings(*module, options);
}

/// Returns a copy of the model with a batch at level `training`, on request without its repeated
/// blocks. Imports each batch once.
OwningOpRef<ModuleOp> PlanCompiler::import(int64_t batch, bool isShrunk) {
  OwningOpRef<ModuleOp> &module = imported[{batch, isShrunk}];
  CompileOptions options = request.options;
  options.batch = batch;
  options.microBatches = 1;
  if (!module) {
    std::vector<std::string> notes;
    module = importModel(context, options.model, getImportOptions(options), notes);
    if (module && isShrunk) {
      PassManager pm(&context, ModuleOp::getOperationName());
      pm.addPass(planner::createShrinkRepeatsPass());
      if (failed(pm.run(*module)))
        module = nullptr;
    }
  }
  if (module && failed(lower(*module, options, ps::Level::Training)))
    module = nullptr;
  return module ? OwningOpRef<ModuleOp>(module->clone()) : nullptr;
}

} // namespace parashard::driver
