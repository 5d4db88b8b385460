// ps-propagate-shardings: completes shardings from the seeds.
#include "lib/Sharding/Passes.h"
#include "lib/Sharding/Propagation.h"
#include "lib/Sharding/Reasons.h"
#include "lib/Sharding/Zero.h"

using namespace mlir;

namespace parashard::sharding {

#define GEN_PASS_DEF_PROPAGATESHARDINGSPASS
#include "lib/Sharding/Passes.h.inc"

namespace {
std::string describe(const sharding::ShardingGraph &graph, unsigned number) {
  const sharding::ShardingNode &node = graph.nodes[number];
  std::string reason = node.fixed ? sharding::getReason(node.variable).str() : "";
  if (!node.fixed && !(node.splitByZero && node.cause < 0))
    reason = sharding::describeCause(graph, number);
  if (node.splitByZero)
    reason += (reason.empty() ? "" : "; ") + std::string("split by ZeRO");
  return reason;
}

void markVariables(sharding::ShardingGraph &graph) {
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    if (!node.variable || (node.fixed && !node.splitByZero))
      continue;
    node.variable.setSharding(graph.getSharding(i));
    sharding::setReason(node.variable, describe(graph, i));
  }
}

void markOps(sharding::ShardingGraph &graph, func::FuncOp function) {
  auto get = [&](Value value) -> Attribute {
    auto it = graph.values.find(value);
    return it == graph.values.end() ? Attribute() : graph.getSharding(it->second);
  };
  for (BlockArgument argument : function.getArguments())
    if (Attribute sharding = get(argument))
      function.setArgAttr(argument.getArgNumber(), kShardingMark, sharding);
  for (Operation &op : function.getFunctionBody().front()) {
    SmallVector<Attribute> shardings;
    for (Value result : op.getResults())
      if (Attribute sharding = get(result))
        shardings.push_back(sharding);
    op.removeAttr(kLaterShardingsMark);
    if (!shardings.empty())
      op.setAttr(kShardingsMark, ArrayAttr::get(op.getContext(), shardings));
    if (!op.hasTrait<OpTrait::IsTerminator>())
      continue;
    for (auto [i, value] : llvm::enumerate(op.getOperands()))
      if (Attribute sharding = get(value))
        function.setResultAttr(i, kShardingMark, sharding);
  }
}

struct PropagateShardingsPass : impl::PropagateShardingsPassBase<PropagateShardingsPass> {
  using PropagateShardingsPassBase::PropagateShardingsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    ps::MeshOp mesh = ps::getMesh(module);
    if (!mesh) {
      module.emitError() << "the module has no ps.mesh; run ps-set-mesh first";
      return signalPassFailure();
    }
    if (module->hasAttr(kLevelMark)) // a module without a level stays without one
      module->setAttr(kLevelMark, ps::LevelAttr::get(&getContext(), ps::Level::Planned));
    sharding::ShardingGraph graph = sharding::ShardingGraph::build(module, mesh);
    sharding::propagateSplits(graph);
    sharding::propagateLaterSplits(graph);
    if (zero > 0) {
      sharding::splitForZero(graph, zero);
      sharding::propagateZeroSplits(graph);
    }
    sharding::EdgeShardings known(graph);
    sharding::replicateSharedConstants(graph, known);
    sharding::choosePartials(graph, known);
    markVariables(graph);
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal())
        markOps(graph, function);
  }
};
} // namespace

} // namespace parashard::sharding
