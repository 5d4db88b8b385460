// Which dim of a variable ZeRO splits.
#include "lib/Sharding/Zero.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace parashard::ps {

static bool isSplitFrom(VariableKind kind, int64_t stage) {
  switch (kind) {
  case VariableKind::Optimizer:
    return stage >= 1;
  case VariableKind::Gradient:
    return stage >= 2;
  case VariableKind::Parameter:
  case VariableKind::Copy:
  case VariableKind::Average: // takes the parameter's place in evaluation: both lie alike
    return stage >= 3;
  default:
    return false;
  }
}

/// The data, expert and context axes that split no dim yet.
static SmallVector<StringAttr> findFreeAxes(const ShardingNode &node, const MeshShape &mesh) {
  SmallVector<StringAttr> free =
      mesh.getAxes({AxisKind::Data, AxisKind::Expert, AxisKind::Context});
  for (const Split &split : node.splits) {
    SmallVector<StringAttr> used = getAxes(split);
    llvm::erase_if(free, [&](StringAttr axis) { return llvm::is_contained(used, axis); });
  }
  return free;
}

/// The outermost dim that divides evenly: its shards are contiguous, or nearly so. Else the one
/// that wastes the least padding.
static void splitOneDim(ShardingNode &node, ArrayRef<StringAttr> axes, const MeshShape &mesh) {
  int64_t best = -1, leastWaste = 0;
  for (auto [dim, split] : llvm::enumerate(node.splits)) {
    if (split.size() != 1 || node.shape[dim] < 2)
      continue;
    SmallVector<StringAttr> all(split[0].axes.begin(), split[0].axes.end());
    llvm::append_range(all, axes);
    int64_t held = mesh.getShardSize(node.shape[dim], all) * mesh.getShards(all);
    int64_t waste = (held - node.shape[dim]) * 1000 / node.shape[dim];
    // A dim that a model axis splits evenly stays in its blocks only if these divide.
    if (!split[0].axes.empty() && waste)
      continue;
    if (best < 0 || waste < leastWaste) {
      best = int64_t(dim);
      leastWaste = waste;
    }
  }
  if (best < 0)
    return;
  llvm::append_range(node.splits[best][0].axes, axes);
  node.splitLater = true;
}

void splitForZero(ShardingGraph &graph, int64_t stage) {
  for (ShardingNode &node : graph.nodes) {
    if (!node.variable || !isSplitFrom(node.variable.getKind(), stage))
      continue;
    if (SmallVector<StringAttr> axes = findFreeAxes(node, graph.mesh); !axes.empty())
      splitOneDim(node, axes, graph.mesh);
  }
}

} // namespace parashard::ps
