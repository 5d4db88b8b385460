// Names the parameters and ops of seeds, and writes their splits.
#include "lib/Sharding/WriteSeeds.h"
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
    for (const Seed &seed : seeds.variables)
      if (!addVariable(seed))
        return std::nullopt;
    for (const NamedResult &result : listResults(graph))
      results.push_back(result);
    for (const LaterSeed &seed : seeds.values)
      if (!addValue(seed))
        return std::nullopt;
    return std::move(object);
  }

private:
  /// Replaces the number of a block of the list by `*`. Returns nullopt for other paths.
  std::optional<std::string> generalize(StringRef path) const {
    StringRef rest = path;
    if (list.empty() || !rest.consume_front(list) || !rest.consume_front("."))
      return std::nullopt;
    StringRef number = rest.take_while(llvm::isDigit);
    if (number.empty())
      return std::nullopt;
    return (list + ".*" + rest.drop_front(number.size())).str();
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
    bool isRepeated = generalize(variable.getSymName()).has_value();
    for (StringRef name :
         {StringRef(variable.getDisplayName()), StringRef(variable.getSymName())}) {
      std::string key = isRepeated ? generalize(name).value_or("") : name.str();
      if (key.empty() || !fitsAll(key, splits))
        continue;
      object[key] = writeDims(splits);
      return true;
    }
    return false;
  }

  bool addValue(const LaterSeed &seed) {
    auto found = llvm::find_if(
        results, [&](const NamedResult &result) { return result.node == seed.value; });
    if (found == results.end())
      return false;
    std::string path = generalize(found->path).value_or(found->path.str());
    for (const NamedResult &result : results)
      if (result.op == found->op && result.number == found->number &&
          matchesGlob(path, result.path.str()) && !isSeeded(result.node, seed.splits))
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
