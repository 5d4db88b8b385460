// Names the parameters and ops of seeds, and writes their splits.
#include "lib/Sharding/WriteSeeds.h"
#include "lib/IR/ModulePath.h"
#include "lib/IR/Parameters.h"
#include "lib/Sharding/NamedResults.h"
#include "shared/Globs.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace parashard::ps;

namespace parashard::sharding {
namespace {

llvm::json::Array writeAxes(ArrayRef<StringAttr> axes) {
  llvm::json::Array list;
  for (StringAttr axis : axes)
    list.push_back(axis.getValue());
  return list;
}

llvm::json::Array writeSplit(const Split &split) {
  if (split.size() == 1)
    return writeAxes(split[0].axes);
  llvm::json::Array factors;
  for (const SubFactor &factor : split) {
    llvm::json::Object object{{"size", factor.size}};
    if (!factor.axes.empty())
      object["axes"] = writeAxes(factor.axes);
    factors.push_back(std::move(object));
  }
  return factors;
}

llvm::json::Object writeDims(const TensorSplits &splits) {
  llvm::json::Object dims;
  for (auto [dim, split] : llvm::enumerate(splits))
    if (!isWhole(split))
      dims[std::to_string(dim)] = writeSplit(split);
  return dims;
}

/// Returns the splits of dims, simplified.
TensorSplits simplifyAll(const TensorSplits &splits, const MeshShape &mesh) {
  TensorSplits simple;
  for (const Split &split : splits)
    simple.push_back(simplify(split, mesh));
  return simple;
}

class Writer {
public:
  Writer(const ShardingGraph &graph, const Seeds &seeds, StringRef list)
      : graph(graph), seeds(seeds), list(list) {}

  std::optional<llvm::json::Object> run() {
    results = listResults(graph);
    for (const Seed &seed : seeds.variables)
      if (!addVariable(seed))
        return std::nullopt;
    for (const LaterSeed &seed : seeds.values)
      if (!addValue(seed))
        return std::nullopt;
    return std::move(object);
  }

private:
  /// Replaces the number of a block by `*`. Example: "h.3.mlp.weight" gives "h.*.mlp.weight".
  /// Returns nullopt for a path outside of blocks.
  static std::optional<std::string> generalize(StringRef path) {
    StringRef block = ir::getBlockOfPath(path);
    if (block.empty())
      return std::nullopt;
    return (block.rsplit('.').first + ".*" + path.drop_front(block.size())).str();
  }

  /// Returns true if a path is in `list`, whose blocks are not all in the graph. Such a path must
  /// be written as a glob that matches all blocks.
  bool isRemoved(StringRef path) const {
    StringRef block = ir::getBlockOfPath(path);
    return !list.empty() && !block.empty() && block.rsplit('.').first == list;
  }

  /// Returns true if all parameters that a glob matches have the splits of a seed.
  bool fitsAll(StringRef glob, const TensorSplits &splits) const {
    return llvm::all_of(graph.nodes, [&](const ShardingNode &node) {
      return !node.variable || VariableOp(node.variable).getKind() != VariableKind::Parameter ||
             !ir::matchesVariable(glob, node.variable) ||
             simplifyAll(node.splits, graph.mesh) == splits;
    });
  }

  bool addVariable(const Seed &seed) {
    VariableOp variable = graph.nodes[seed.variable].variable;
    TensorSplits splits = simplifyAll(seed.splits, graph.mesh);
    SmallVector<std::string> keys;
    for (StringRef name : {variable.getDisplayName(), variable.getSymName()})
      if (std::optional<std::string> glob = generalize(name))
        keys.push_back(*glob);
    if (!isRemoved(variable.getDisplayName()))
      keys.append({variable.getDisplayName().str(), variable.getSymName().str()});
    auto key = llvm::find_if(keys, [&](const std::string &each) { return fitsAll(each, splits); });
    if (key == keys.end())
      return false;
    object[*key] = writeDims(splits);
    return true;
  }

  /// Returns true if all results that a glob matches have a seed with these splits.
  bool fitsAll(StringRef pathGlob, const NamedResult &like, const TensorSplits &splits) const {
    return llvm::all_of(results, [&](const NamedResult &result) {
      return result.op != like.op || result.number != like.number ||
             !matchesGlob(pathGlob.str(), result.path.str()) || isSeeded(result.node, splits);
    });
  }

  bool addValue(const LaterSeed &seed) {
    auto found = llvm::find_if(
        results, [&](const NamedResult &result) { return result.node == seed.value; });
    if (found == results.end())
      return false;
    std::optional<std::string> glob = generalize(found->path);
    std::string path = glob && fitsAll(*glob, *found, seed.splits) ? *glob : found->path.str();
    if (path == found->path && isRemoved(path))
      return false;
    object[path + ":" + found->op.str() + "#" + std::to_string(found->number)] =
        writeDims(seed.splits);
    return true;
  }

  bool isSeeded(unsigned node, const TensorSplits &splits) const {
    return llvm::any_of(seeds.values, [&](const LaterSeed &seed) {
      return seed.value == node && seed.splits == splits;
    });
  }

  const ShardingGraph &graph;
  const Seeds &seeds;
  StringRef list;
  std::vector<NamedResult> results;
  llvm::json::Object object;
};

} // namespace

std::optional<llvm::json::Object> writeSeeds(const ShardingGraph &graph, const Seeds &seeds,
                                             StringRef list) {
  return Writer(graph, seeds, list).run();
}

} // namespace parashard::sharding
