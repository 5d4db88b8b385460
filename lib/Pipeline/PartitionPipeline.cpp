// Implements ps-partition-pipeline and ps-explain-pipeline: assigns segments to stages.
#include "dialects/ps/Refusal.h"
#include "lib/Costs/Quantity.h"
#include "lib/IR/Cloneable.h"
#include "lib/IR/OpTimes.h"
#include "lib/IR/Stages.h"
#include "lib/Pipeline/Layers.h"
#include "lib/Pipeline/Passes.h"
#include "lib/Pipeline/StagePartition.h"
#include "lib/Sharding/Explain.h"
#include "lib/Sharding/Reasons.h"
#include "parashard/Levels.h"
#include "shared/Counts.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::sharding;

namespace parashard::pipeline {
#define GEN_PASS_DEF_PARTITIONPIPELINEPASS
#define GEN_PASS_DEF_EXPLAINPIPELINEPASS
#include "lib/Pipeline/Passes.h.inc"

namespace {

/// Reports why `function` has no segments: all ops depend only on constants, or ps-find-segments
/// has not run.
void explainMissingLayers(func::FuncOp function, int64_t stages) {
  DenseSet<Operation *> cloneable = findCloneableOps(function);
  auto ops = function.getBody().front().without_terminator();
  if (llvm::all_of(ops, [&](Operation &op) { return cloneable.contains(&op); }))
    refuse(function) << "the model's results are constants, which leaves no layer for " << stages
                     << " pipeline stages; use a mesh without a pipeline axis";
  else
    function.emitError() << "no op has a segment; run ps-find-segments first";
}

struct PartitionPipelinePass : impl::PartitionPipelinePassBase<PartitionPipelinePass> {
  using PartitionPipelinePassBase::PartitionPipelinePassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (failed(checkOptions(module)))
      return signalPassFailure();
    Stages stages;
    stages.placement = {placement == "v" ? schedules::PlacementKind::V
                                         : schedules::PlacementKind::Loop,
                        getPipelineSize(module), chunks};
    func::FuncOp function = getCutFunction(module);
    if (stages.getCount() == 1 || !function)
      return;
    FailureOr<costs::Cluster> cluster = ir::findCluster(module);
    if (failed(cluster))
      return signalPassFailure();
    std::vector<Layer> layers = findLayers(function, cluster->device);
    if (layers.empty()) {
      explainMissingLayers(function, stages.getCount());
      return signalPassFailure();
    }
    auto cuts = findCuts(layers, method, stages.placement);
    if (!cuts) {
      refuseFlag(module, getCause(layers.size(), stages.placement))
          << ": " << llvm::toString(cuts.takeError());
      return signalPassFailure();
    }
    stages.cuts = *cuts;
    setStages(module, stages);
    setStageCosts(module, addUpStages(layers, stages));
  }

private:
  /// Returns the flag that prevents a model with `layers` layers from being cut.
  std::string getCause(int64_t layers, const schedules::Placement &given) const {
    if (!isBalanced(method) || given.ranks <= layers / given.chunks)
      return "split-method " + method;
    return given.ranks > layers ? "mesh" : "num-chunks " + std::to_string(given.chunks);
  }

  LogicalResult checkOptions(ModuleOp module) {
    if (chunks < 1)
      return refuseFlag(module, "num-chunks " + Twine(chunks))
             << " is too small; use at least 1 chunk per pipeline coordinate";
    if (placement != "loop" && placement != "v")
      return module.emitError() << "placement is '" << placement << "'; expected loop or v";
    if (chunks > 1 && getPipelineSize(module) == 1)
      return refuseFlag(module, "num-chunks " + Twine(chunks))
             << ": several chunks per pipeline coordinate need a mesh with a pipeline "
                "axis of at least 2, such as pp=2";
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Explanation
//===----------------------------------------------------------------------===//

std::string formatCount(int64_t count) {
  const char *units[] = {"", " K", " M", " G", " T", " P"};
  double value = double(count);
  unsigned unit = 0;
  for (; value >= 1000 && unit < 5; ++unit)
    value /= 1000;
  return llvm::formatv(unit && value < 100 ? "{0:f1}{1}" : "{0:f0}{1}", value, units[unit]);
}

/// Returns the coordinate of a stage. Example: "0", or "0 (chunk 1)" with several chunks.
std::string describeHome(const Stages &stages, int64_t stage) {
  std::string text = std::to_string(stages.getCoordinate(stage));
  if (stages.placement.chunks > 1)
    text += " (chunk " + std::to_string(stages.placement.getChunk(stage)) + ")";
  return text;
}

std::string explainPipeline(ModuleOp module) {
  func::FuncOp function = getCutFunction(module);
  Stages stages = getStages(module);
  if (!function || stages.getCount() == 1)
    return "";
  FailureOr<costs::Cluster> cluster = ir::findCluster(module);
  if (failed(cluster))
    return "";
  std::vector<Layer> layers = findLayers(function, cluster->device);
  std::vector<std::vector<std::string>> rows = {{"layer", "stage", "pp", "parameters",
                                                 "forward flops", "backward flops", "time", "saved",
                                                 "sent at a cut after the layer"}};
  for (auto [i, layer] : llvm::enumerate(layers)) {
    int64_t stage = stages.getStage(i);
    rows.push_back({layer.name.empty() ? "-" : layer.name, std::to_string(stage),
                    describeHome(stages, stage), formatCount(layer.parameters),
                    formatCount(layer.forwardFlops), formatCount(layer.getBackwardFlops()),
                    costs::printSeconds(layer.seconds), formatBytes(layer.activationBytes),
                    i + 1 < layers.size() ? formatBytes(layer.boundaryBytes) : "-"});
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "\npipeline: " << describeCount(stages.getCount(), "stage") << " of "
     << describeCount(layers.size(), "layer")
     << "; sizes and times are per rank and micro-batch, on " << cluster->name << "\n";
  printTable(rows, os);
  return text;
}

struct ExplainPipelinePass : impl::ExplainPipelinePassBase<ExplainPipelinePass> {
  using ExplainPipelinePassBase::ExplainPipelinePassBase;

  void runOnOperation() override {
    std::string text = explainPipeline(getOperation());
    if (!record) {
      llvm::outs() << text;
      return;
    }
    if (text.empty())
      return;
    auto known = getOperation()->getAttrOfType<StringAttr>(kExplanationMark);
    getOperation()->setAttr(kExplanationMark,
                            StringAttr::get(&getContext(), (known ? known.str() : "") + text));
  }
};

} // namespace
} // namespace parashard::pipeline
