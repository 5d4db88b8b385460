// Searches shardings on a small copy of a model.
#include "dialects/ps/Refusal.h"
#include "lib/IR/ModulePath.h"
#include "lib/IR/OpTimes.h"
#include "lib/Sharding/MeshText.h"
#include "lib/Sharding/SeedInputs.h"
#include "lib/Sharding/WriteSeeds.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "parashard/Driver.h"
#include "parashard/Planner.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace parashard::driver {
namespace {

LogicalResult run(ModuleOp module, StringRef passes) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  return failure(failed(parsePassPipeline(passes, pm)) || failed(pm.run(module)));
}

/// Copies a module, runs all passes before ps-seed-shardings on the copy, and seeds its inputs.
/// Returns null if a pass fails.
OwningOpRef<ModuleOp> prepare(ModuleOp module, const CompileOptions &options, bool isShrunk) {
  OwningOpRef<ModuleOp> copy = module.clone();
  if (isShrunk && getLevel(module) == ps::Level::Imported) {
    PassManager pm(module.getContext(), ModuleOp::getOperationName());
    pm.addPass(planner::createShrinkRepeatsPass());
    if (failed(pm.run(*copy)))
      return nullptr;
  }
  WalkOptions walk;
  walk.stopAfter = ps::Level::Training;
  if (failed(runWalk(*copy, options, walk)))
    return nullptr;
  std::vector<std::string> passes = getPasses(ps::Level::Planned, options);
  auto seeds =
      llvm::find_if(passes, [](StringRef pass) { return pass.starts_with("ps-seed-shardings"); });
  passes.erase(seeds, passes.end());
  if (failed(run(*copy, llvm::join(passes, ","))))
    return nullptr;
  ps::MeshOp mesh = ps::getMesh(*copy);
  if (!mesh || failed(sharding::seedInputs(*copy, sharding::MeshShape(mesh))))
    return nullptr;
  return copy;
}

/// Returns the path of the list whose blocks ps-shrink-repeats removed, such as "transformer.h".
/// Returns nullopt if the module still has all blocks, and "" if the blocks have no path.
std::optional<StringRef> findRemovedList(ModuleOp module) {
  auto repeats = module->getAttrOfType<DictionaryAttr>(kRepeatsMark);
  if (!repeats)
    return std::nullopt;
  StringRef block = ir::getBlockOfPath(repeats.getAs<StringAttr>("parameter").getValue());
  return block.empty() ? block : block.rsplit('.').first;
}

bool hasTensorAxis(const CompileOptions &options) {
  auto mesh = sharding::parseMesh(options.mesh, options.ranks.value_or(0));
  if (!mesh)
    return llvm::consumeError(mesh.takeError()), false;
  return llvm::any_of(*mesh, [](const sharding::MeshAxis &axis) {
    return axis.kind == ps::AxisKind::Tensor && axis.size > 1;
  });
}

/// Returns the sharding file that a search finds; nullopt if the search fails, or if the file
/// cannot describe the blocks that the module lacks.
std::optional<llvm::json::Object> search(ModuleOp module, const sharding::Policy &policy) {
  FailureOr<costs::Cluster> cluster = ir::findCluster(module);
  if (failed(cluster))
    return std::nullopt;
  std::optional<StringRef> list = findRemovedList(module);
  if (list && list->empty())
    return std::nullopt;
  sharding::ShardingGraph graph = sharding::ShardingGraph::build(module, ps::getMesh(module));
  sharding::Seeds seeds = policy.seed(graph, *cluster);
  return sharding::writeSeeds(graph, seeds, list.value_or(""));
}

} // namespace

std::optional<std::string> searchShardings(ModuleOp module, const CompileOptions &options) {
  const sharding::Policy *policy = sharding::findPolicy(options.shardingPolicy);
  if (!policy || !policy->isSearch || getLevel(module) >= ps::Level::Planned ||
      !hasTensorAxis(options))
    return std::nullopt;
  std::optional<llvm::json::Object> file;
  {
    ScopedDiagnosticHandler silence(module.getContext(), [](Diagnostic &) { return success(); });
    for (bool isShrunk : {true, false})
      if (OwningOpRef<ModuleOp> copy = file ? nullptr : prepare(module, options, isShrunk))
        file = search(*copy, *policy);
  }
  if (!file)
    return std::nullopt;
  if (file->empty())
    ps::remarkFlag(module, "sharding-policy " + options.shardingPolicy)
        << ": " << sharding::kNoSplitGains;
  return llvm::formatv("{0}", llvm::json::Value(std::move(*file))).str();
}

} // namespace parashard::driver
