// ps-seed-shardings: lets a policy choose the shardings of inputs and parameters.
#include "dialects/ps/Refusal.h"
#include "lib/Sharding/Passes.h"
#include "lib/Sharding/Policy.h"
#include "lib/Sharding/Reasons.h"
#include "parashard/Training.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace parashard::training;

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
    named = sharding::findPolicy(policy);
    bool needsOps = named && named->readsOps &&
                    !sharding::MeshShape(mesh).getAxes({ps::AxisKind::Tensor}).empty();
    sharding::ShardingGraph graph =
        needsOps ? sharding::ShardingGraph::build(getOperation(), mesh)
                 : sharding::ShardingGraph::buildVariables(getOperation(), mesh);
    if (failed(seedVariables(graph)) || failed(seedInputs(graph.mesh)))
      signalPassFailure();
  }

  llvm::Expected<std::vector<sharding::Seed>> runPolicy(const sharding::ShardingGraph &graph) {
    if (named)
      return named->seed(graph);
    if (!StringRef(policy).ends_with(".json"))
      return ps::createFlagError("sharding-policy " + policy,
                                 ": unknown; use " + sharding::listPolicies());
    auto file = llvm::MemoryBuffer::getFile(policy);
    if (!file)
      return ps::createFlagError("sharding-policy " + policy, ": " + file.getError().message());
    std::vector<std::string> notes;
    auto seeds = sharding::seedFromFile(graph, (*file)->getBuffer(), policy, notes);
    for (const std::string &note : notes)
      getOperation().emitRemark() << note;
    return seeds;
  }

  LogicalResult seedVariables(sharding::ShardingGraph &graph) {
    llvm::Expected<std::vector<sharding::Seed>> seeds = runPolicy(graph);
    if (!seeds)
      return ps::reportError(getOperation(), seeds.takeError());
    for (const sharding::Seed &seed : *seeds) {
      sharding::ShardingNode &node = graph.nodes[seed.variable];
      if (node.fixed)
        continue;
      node.variable.setSharding(sharding::getShardingAttr(seed.splits, {}, graph.mesh));
      sharding::setReason(node.variable, seed.reason);
    }
    std::vector<sharding::LaterSeed> later;
    if (named && named->seedLater)
      later = named->seedLater(graph, *seeds);
    seedLater(graph, later);
    if (named && (named->seedLater ? later.empty() : seeds->empty()))
      remarkUnmatched(graph.mesh);
    return success();
  }

  void remarkUnmatched(const sharding::MeshShape &mesh) {
    if (!named->unmatched.empty() && !mesh.getAxes({ps::AxisKind::Tensor}).empty())
      ps::remarkFlag(getOperation(), "sharding-policy " + policy) << ": " << named->unmatched;
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

  LogicalResult seedInputs(const sharding::MeshShape &mesh) {
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (BlockArgument argument : function.getArguments())
        if (failed(seedInput(function, argument, mesh)))
          return failure();
    return success();
  }

  LogicalResult seedInput(func::FuncOp function, BlockArgument argument,
                          const sharding::MeshShape &mesh) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || ps::getSharding(argument))
      return success();
    unsigned number = argument.getArgNumber();
    auto named = function.getArgAttrOfType<StringAttr>(number, kNameMark);
    auto marked = function.getArgAttrOfType<IntegerAttr>(number, kBatchDimMark);
    StringRef name = named ? named.getValue() : StringRef();
    int64_t dim = marked ? marked.getInt() : 0;
    sharding::TensorSplits splits = sharding::getSplits({}, type.getShape(), mesh);
    SmallVector<StringAttr> axes = mesh.getAxes({ps::AxisKind::Data, ps::AxisKind::Expert});
    bool hasBatch = dim != kNoBatch && type.getRank() > 0;
    if (hasBatch && dim >= type.getRank())
      return ps::refuseFlag(function, "batch-dim " + name + "=" + Twine(dim))
             << ": the input has " << type.getRank() << " dims";
    if (hasBatch && type.getDimSize(dim) % mesh.getShards(axes) != 0)
      return ps::refuseFlag(function, "mesh")
             << ": input \"" << name << "\" has a batch of " << type.getDimSize(dim) << " (dim "
             << dim << "), which is not divisible by " << mesh.getShards(axes)
             << " data shards; set --batch to a multiple of " << mesh.getShards(axes)
             << ", export the model with such a batch, or pass --batch-dim " << name
             << "=none if dim " << dim << " is not the batch dim";
    if (hasBatch)
      splits[dim] = sharding::makeSplit(type.getDimSize(dim), axes);
    ps::setSharding(argument, sharding::getShardingAttr(splits, {}, mesh));
    return success();
  }

  const sharding::Policy *named = nullptr; ///< null: `policy` is a file
};
} // namespace

} // namespace parashard::sharding
