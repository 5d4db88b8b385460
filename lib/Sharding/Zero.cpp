// Chooses the dims of variables that ZeRO splits.
#include "lib/Sharding/Zero.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {

/// Returns the symbols of the parameters that have 16-bit copies: forward and backward read the
/// copies, and only the update reads the parameters.
static llvm::StringSet<> findCopied(const ShardingGraph &graph) {
  llvm::StringSet<> found;
  for (const ShardingNode &node : graph.nodes)
    if (VariableOp variable = node.variable; variable && variable.getKind() == VariableKind::Copy)
      found.insert(*variable.getOf());
  for (const ShardingEdge &edge : graph.edges)
    if (edge.kind == ShardingEdge::Kind::Read && !edge.isInUpdate())
      found.erase(*cast<ReadOp>(edge.op).getVariable());
  return found;
}

static bool isSplitFrom(VariableOp variable, const llvm::StringSet<> &copied, int64_t stage) {
  switch (variable.getKind()) {
  case VariableKind::Optimizer:
    return stage >= 1;
  case VariableKind::Gradient:
    return stage >= 2;
  case VariableKind::Parameter:
    return stage >= (copied.contains(variable.getSymName()) ? 1 : 3);
  case VariableKind::Average: // replaces the parameter in evaluation; both share a sharding
    return stage >= (copied.contains(*variable.getOf()) ? 1 : 3);
  case VariableKind::Copy:
    return stage >= 3;
  default:
    return false;
  }
}

/// Returns the data, expert and context axes that do not split any dim yet.
static SmallVector<StringAttr> findFreeAxes(const ShardingNode &node, const MeshShape &mesh) {
  SmallVector<StringAttr> free =
      mesh.getAxes({AxisKind::Data, AxisKind::Expert, AxisKind::Context});
  for (const Split &split : node.splits) {
    SmallVector<StringAttr> used = getAxes(split);
    llvm::erase_if(free, [&](StringAttr axis) { return llvm::is_contained(used, axis); });
  }
  return free;
}

/// Splits the dim that needs the least padding relative to its size. Compares the padding in steps
/// of 0.1 percent of the size, rounded down. Among dims with equal padding, splits the outermost
/// one, so that shards are contiguous, or nearly so.
static void splitOneDim(ShardingNode &node, ArrayRef<StringAttr> axes, const MeshShape &mesh) {
  int64_t best = -1, minWaste = 0;
  for (auto [dim, split] : llvm::enumerate(node.splits)) {
    if (split.size() != 1 || node.shape[dim] < 2)
      continue;
    SmallVector<StringAttr> all(split[0].axes.begin(), split[0].axes.end());
    llvm::append_range(all, axes);
    int64_t held = mesh.getShardSize(node.shape[dim], all) * mesh.getShards(all);
    int64_t waste = (held - node.shape[dim]) * 1000 / node.shape[dim];
    // Padding would shift the blocks of a dim that a model axis already splits.
    if (!split[0].axes.empty() && waste)
      continue;
    if (best < 0 || waste < minWaste) {
      best = int64_t(dim);
      minWaste = waste;
    }
  }
  if (best < 0)
    return;
  llvm::append_range(node.splits[best][0].axes, axes);
  node.splitByZero = true;
}

void splitForZero(ShardingGraph &graph, int64_t stage) {
  llvm::StringSet<> copied = findCopied(graph);
  for (ShardingNode &node : graph.nodes) {
    if (!node.variable || !isSplitFrom(node.variable, copied, stage))
      continue;
    if (SmallVector<StringAttr> axes = findFreeAxes(node, graph.mesh); !axes.empty())
      splitOneDim(node, axes, graph.mesh);
  }
}

} // namespace parashard::sharding
