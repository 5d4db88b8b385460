// Names the results of ops of the model.
#include "lib/Sharding/NamedResults.h"
#include "lib/IR/ModulePath.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

/// Returns true for an op of the forward or of `@evaluate`, and for an op without a phase.
static bool isOfModel(Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseMark);
  return !phase || phase.getValue() == Phase::Forward || phase.getValue() == Phase::Evaluate;
}

std::vector<NamedResult> listResults(const ShardingGraph &graph) {
  std::vector<NamedResult> results;
  // Counts per function, path and op.
  std::map<std::tuple<Block *, StringRef, StringRef>, unsigned> counts;
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    auto result = dyn_cast_or_null<OpResult>(node.value);
    if (!result || result.getResultNumber() > 0)
      continue;
    Operation *op = result.getOwner();
    if (!isa<ShardingOpInterface>(op) || !isOfModel(op))
      continue;
    StringRef path = ir::getModulePath(op->getLoc()).value_or("");
    StringRef name = op->getName().stripDialect();
    unsigned number = counts[{op->getBlock(), path, name}]++;
    results.push_back({unsigned(i), path, name, number});
  }
  return results;
}

} // namespace parashard::sharding
