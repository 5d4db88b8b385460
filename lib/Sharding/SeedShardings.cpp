// ps-seed-shardings: lets a policy choose the shardings of inputs and parameters.
#include "dialects/ps/Refusal.h"
#include "lib/IR/OpTimes.h"
#include "lib/Sharding/Passes.h"
#include "lib/Sharding/Policy.h"
#include "lib/Sharding/Reasons.h"
#include "lib/Sharding/SeedInputs.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace parashard::sharding {

#define GEN_PASS_DEF_SEEDSHARDINGSPASS
#include "lib/Sharding/Passes.h.inc"

namespace {
struct SeedShardingsPass : impl::SeedShardingsPassBase<SeedShardingsPass> {
  using SeedShardingsPassBase::SeedShardingsPassBase;

  void runOnOperation() override {
    ps::MeshOp mesh = ps::getMesh(getOperation());
    if (!mesh) {
      getOperation().emitError() << "the module has no ps.mesh; run ps-set-mesh first";
      return signalPassFailure();
    }
    // Runs before the policy, because a policy may read the splits of the inputs.
    if (failed(sharding::seedInputs(getOperation(), sharding::MeshShape(mesh))))
      return signalPassFailure();
    named = sharding::findPolicy(policy);
    bool needsOps = !named || (named->readsOps &&
                               !sharding::MeshShape(mesh).getAxes({ps::AxisKind::Tensor}).empty());
    sharding::ShardingGraph graph =
        needsOps ? sharding::ShardingGraph::build(getOperation(), mesh)
                 : sharding::ShardingGraph::buildVariables(getOperation(), mesh);
    if (failed(seed(graph)))
      signalPassFailure();
  }

  llvm::Expected<sharding::Seeds> runPolicy(sharding::ShardingGraph &graph,
                                            const costs::Cluster &cluster) {
    if (named)
      return named->seed(graph, cluster);
    std::vector<std::string> notes;
    auto read = [&](StringRef text, StringRef path) {
      auto seeds = sharding::seedFromFile(graph, text, path, notes);
      for (const std::string &note : notes)
        getOperation().emitRemark() << note;
      return seeds;
    };
    if (sharding::isInlinePolicy(policy))
      return read(policy, "");
    if (!StringRef(policy).ends_with(".json"))
      return ps::createFlagError("sharding-policy " + policy,
                                 ": unknown; use " + sharding::listPolicies());
    auto file = llvm::MemoryBuffer::getFile(policy);
    if (!file)
      return ps::createFlagError("sharding-policy " + policy, ": " + file.getError().message());
    return read((*file)->getBuffer(), policy);
  }

  LogicalResult seed(sharding::ShardingGraph &graph) {
    FailureOr<costs::Cluster> cluster = ir::findCluster(getOperation());
    if (failed(cluster))
      return failure();
    llvm::Expected<sharding::Seeds> seeds = runPolicy(graph, *cluster);
    if (!seeds)
      return ps::reportError(getOperation(), seeds.takeError());
    for (const sharding::Seed &seed : seeds->variables) {
      sharding::ShardingNode &node = graph.nodes[seed.variable];
      if (node.variable.getSharding()) // already sharded
        continue;
      node.variable.setSharding(sharding::getShardingAttr(seed.splits, {}, graph.mesh));
      sharding::setReason(node.variable, seed.reason);
    }
    seedLater(graph, seeds->values);
    if (!seeds->unmatched.empty() && !graph.mesh.getAxes({ps::AxisKind::Tensor}).empty())
      ps::remarkFlag(getOperation(), "sharding-policy " + policy) << ": " << seeds->unmatched;
    return success();
  }

  void seedLater(const sharding::ShardingGraph &graph, ArrayRef<sharding::LaterSeed> seeds) {
    for (const sharding::LaterSeed &seed : seeds) {
      auto value = cast<OpResult>(graph.nodes[seed.value].value);
      Operation *op = value.getOwner();
      SmallVector<Attribute> all(op->getNumResults(), UnitAttr::get(&getContext()));
      all[value.getResultNumber()] = sharding::getShardingAttr(seed.splits, {}, graph.mesh);
      op->setAttr(kLaterShardingsMark, ArrayAttr::get(&getContext(), all));
      op->setAttr(kReasonMark, StringAttr::get(&getContext(), seed.reason));
    }
  }

  const sharding::Policy *named = nullptr; ///< null: `policy` is a file, or its text
};
} // namespace

} // namespace parashard::sharding
