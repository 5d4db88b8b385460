// Reads seeds from a sharding file.
#include "dialects/ps/Refusal.h"
#include "lib/IR/Parameters.h"
#include "lib/Sharding/NamedResults.h"
#include "lib/Sharding/Policy.h"
#include "lib/Support/JsonDocument.h"
#include "shared/Counts.h"
#include "shared/Globs.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <set>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::support;

namespace parashard::sharding {

static bool isParameter(const ShardingNode &node) {
  return node.variable && VariableOp(node.variable).getKind() == VariableKind::Parameter;
}

namespace {
class FileReader {
public:
  FileReader(const ShardingGraph &graph, StringRef path, std::vector<std::string> &notes)
      : graph(graph), path(path), notes(notes) {}

  llvm::Expected<Seeds> read(StringRef text) {
    llvm::Expected<JsonDocument> json = JsonDocument::parse(text);
    if (!json)
      return fail(llvm::toString(json.takeError()));
    if (!json->getRoot().isObject())
      return fail("expected an object {\"GLOB\": {\"DIM\": [\"axis\", ...]}}");
    Members globs = json->getRoot().getMembers();
    // Reads the globs in file order, since the first matching glob wins.
    for (const auto &[glob, value] : globs) {
      if (!value.isObject())
        return fail("\"" + glob +
                    "\" is not an object {\"DIM\": [\"axis\", ...]}, such as {\"0\": [\"tp\"]}");
      if (llvm::Error error = StringRef(glob).contains(':')
                                  ? readOps(glob, value.getMembers())
                                  : readGlob(glob, value.getMembers(), seeds.variables))
        return std::move(error);
    }
    return std::move(seeds);
  }

private:
  llvm::Error fail(const Twine &message) const {
    return createFlagError(path.empty() ? "sharding-policy" : "sharding-policy " + path,
                           ": " + message);
  }

  using Members = std::vector<std::pair<std::string, JsonValue>>;

  llvm::Error readGlob(StringRef glob, const Members &dims, std::vector<Seed> &seeds) {
    bool any = false, isName = glob.find_first_of("*?[") == StringRef::npos;
    std::vector<std::string> without;
    const ShardingNode *missing = nullptr;
    for (auto [i, node] : llvm::enumerate(graph.nodes)) {
      if (!isParameter(node) || !matchesVariable(glob, VariableOp(node.variable)))
        continue;
      if (llvm::any_of(seeds, [&](const Seed &seed) { return seed.variable == i; })) {
        any = true;
        continue;
      }
      if (!isName && !hasDims(node, dims)) {
        without.push_back(getName(node).str());
        missing = missing ? missing : &node;
        continue;
      }
      any = true;
      llvm::Expected<TensorSplits> splits = readDims(glob, getName(node), node, dims);
      if (!splits)
        return splits.takeError();
      seeds.push_back({unsigned(i), *splits, describeSource(glob)});
    }
    if (any && !without.empty())
      notes.push_back(("sharding policy " + path + ": \"" + glob + "\" skips " +
                       llvm::Twine(without.size()) + " parameters that lack one of the dims (" +
                       listKeys(dims) + "): " + joinSome(without))
                          .str());
    if (!any && missing) // all matching parameters lack a dim
      return readDims(glob, getName(*missing), *missing, dims).takeError();
    if (any)
      return llvm::Error::success();
    return fail("no parameter matches \"" + glob + "\"" +
                describeNearest(glob.str(), listParameters()));
  }

  static StringRef getName(const ShardingNode &node) {
    return VariableOp(node.variable).getDisplayName();
  }
  std::string describeSource(StringRef glob) const {
    return ("policy" + (path.empty() ? "" : " " + path) + ": \"" + glob + "\"").str();
  }

  /// Reads splits for the first results of ops. The key PATH:OP matches all ops with this name and
  /// module path. PATH:OP#N matches only op number N of these in each module, counted from 0.
  llvm::Error readOps(StringRef glob, const Members &dims) {
    auto [pathGlob, opName] = glob.rsplit(':');
    auto [name, count] = opName.split('#');
    unsigned number = 0;
    bool isNumbered = opName.contains('#');
    if (isNumbered && count.getAsInteger(10, number))
      return fail("\"" + glob + "\": '" + count + "' is not the number of an op, such as #0");
    bool any = false;
    for (const NamedResult &result : listResults()) {
      if (result.op != name || (isNumbered && result.number != number) ||
          !matchesGlob(pathGlob.str(), result.path.str()))
        continue;
      const ShardingNode &node = graph.nodes[result.node];
      std::string where = (result.path + ":" + result.op).str();
      llvm::Expected<TensorSplits> splits = readDims(glob, where, node, dims);
      if (!splits)
        return splits.takeError();
      any = true;
      if (llvm::none_of(seeds.values,
                        [&](const LaterSeed &seed) { return seed.value == result.node; }))
        seeds.values.push_back({result.node, *splits, describeSource(glob)});
    }
    if (any)
      return llvm::Error::success();
    if (listResults().empty())
      return fail("\"" + glob + "\": no op of the model can be sharded");
    return fail("no op of the model matches \"" + glob + "\"" +
                describeNearest(glob.str(), listOps()));
  }

  const std::vector<NamedResult> &listResults() {
    if (!results)
      results = sharding::listResults(graph);
    return *results;
  }

  std::vector<std::string> listOps() {
    std::set<std::string> names;
    for (const NamedResult &result : listResults())
      names.insert((result.path + ":" + result.op).str());
    return {names.begin(), names.end()};
  }
  std::vector<std::string> listParameters() const {
    std::set<std::string> names; // parts of a split parameter share one name
    for (const ShardingNode &node : graph.nodes)
      if (isParameter(node))
        names.insert(getName(node).str());
    return {names.begin(), names.end()};
  }

  static std::optional<size_t> findDim(const ShardingNode &node, StringRef key) {
    int64_t dim, rank = node.shape.size();
    if (key.getAsInteger(10, dim) || dim < -rank || dim >= rank)
      return std::nullopt;
    return dim < 0 ? dim + rank : dim;
  }
  /// Returns true if the tensor has the dims of all keys. Ignores keys that are not numbers,
  /// because `readDims` reports them.
  static bool hasDims(const ShardingNode &node, const Members &dims) {
    int64_t dim;
    return llvm::all_of(dims, [&](auto &entry) {
      return StringRef(entry.first).getAsInteger(10, dim) || findDim(node, entry.first);
    });
  }
  static std::string listKeys(const Members &dims) {
    std::string list;
    for (auto &entry : dims)
      list += (list.empty() ? "\"" : ", \"") + entry.first + "\"";
    return list;
  }
  static std::string joinSome(ArrayRef<std::string> names) {
    std::string list = llvm::join(names.take_front(5), ", ");
    return names.size() > 5 ? list + llvm::formatv(" and {0} more", names.size() - 5).str() : list;
  }

  /// Reads the splits of a tensor. `name` is the name of the parameter, or PATH:OP.
  llvm::Expected<TensorSplits> readDims(StringRef glob, StringRef name, const ShardingNode &node,
                                        const Members &dims) {
    TensorSplits splits;
    for (int64_t size : node.shape)
      splits.push_back(wholeSplit(size));
    SmallVector<StringAttr> used;
    std::map<size_t, StringRef> keys; ///< keys by dim
    for (auto &[key, axes] : dims) {
      std::optional<size_t> dim = findDim(node, key);
      if (!dim)
        return fail(llvm::formatv("{0} has no dim \"{1}\"; it has {2} dims, counted from 0", name,
                                  StringRef(key), splits.size())
                        .str());
      auto [known, isNew] = keys.try_emplace(*dim, key);
      if (!isNew)
        return fail(llvm::formatv("\"{0}\": \"{1}\" and \"{2}\" both name dim {3} of {4}, "
                                  "which has {5} dims; give the axes of a dim under one key",
                                  glob, known->second, StringRef(key), *dim, name, splits.size())
                        .str());
      std::string where = ("\"" + glob + "\": {\"" + key + "\"}").str();
      llvm::Expected<Split> split = readSplit(where, name, axes, node.shape[*dim], used);
      if (!split)
        return split.takeError();
      splits[*dim] = *split;
    }
    return splits;
  }

  /// Reads the split of a dim: a list of axes, or a list of factors.
  llvm::Expected<Split> readSplit(StringRef where, StringRef name, JsonValue value, int64_t size,
                                  SmallVectorImpl<StringAttr> &used) {
    std::vector<JsonValue> elements = value.getElements();
    if (elements.empty() || !elements.front().isObject()) {
      llvm::Expected<SmallVector<StringAttr>> axes = readAxes(where, name, value, used);
      return axes ? llvm::Expected<Split>(makeSplit(size, *axes)) : axes.takeError();
    }
    Split split;
    int64_t product = 1;
    for (JsonValue element : elements) {
      std::optional<int64_t> factor = element.getInteger("size");
      if (!element.isObject() || !factor || *factor < 1 || *factor > size)
        return fail(where + ": a factor of " + name +
                    " is not {\"size\": 6, \"axes\": [\"axis\", ...]} with a size from 1 to " +
                    Twine(size));
      SubFactor part{*factor, {}};
      for (auto &[key, member] : element.getMembers()) {
        if (key != "size" && key != "axes")
          return fail(where + ": a factor has no key \"" + key + "\"; its keys are size and axes");
        if (key == "size")
          continue;
        llvm::Expected<SmallVector<StringAttr>> axes = readAxes(where, name, member, used);
        if (!axes)
          return axes.takeError();
        part.axes.append(axes->begin(), axes->end());
      }
      product = llvm::SaturatingMultiply(uint64_t(product), uint64_t(*factor));
      split.push_back(std::move(part));
    }
    if (product != size)
      return fail(where + ": the factors of " + name + " have " +
                  describeCount(product, "element") + ", but the dim has " + Twine(size));
    return split;
  }

  llvm::Expected<SmallVector<StringAttr>> readAxes(StringRef where, StringRef variable,
                                                   JsonValue value,
                                                   SmallVectorImpl<StringAttr> &used) {
    if (!value.isArray())
      return fail("axes of " + variable + " are not a list [\"axis\", ...]");
    SmallVector<StringAttr> axes;
    for (JsonValue entry : value.getElements()) {
      std::optional<std::string> text = entry.getAsString();
      if (!text)
        return fail("an axis of " + variable + " is not a string");
      auto axis = StringAttr::get(graph.mesh.getContext(), *text);
      if (!graph.mesh.has(axis))
        return fail("the mesh has no axis \"" + *text + "\"; it has " + listAxes());
      if (!graph.mesh.splitsTensors(axis))
        return fail(where + ": axis \"" + *text + "\" is of kind " +
                    stringifyAxisKind(graph.mesh.getKind(axis)) +
                    ": its devices run different stages of the model, so tensors cannot be split "
                    "over this axis; " +
                    describeAllowed());
      if (llvm::is_contained(used, axis))
        return fail("axis \"" + *text + "\" is used twice for " + variable +
                    "; an axis can split at most one dim of a tensor");
      used.push_back(axis);
      axes.push_back(axis);
    }
    return axes;
  }

  std::string listAxes() const {
    return graph.mesh.listAxes([](AxisAttr) { return true; });
  }
  std::string describeAllowed() const {
    std::string list = graph.mesh.listSplittingAxes();
    return list.empty() ? "the mesh has no axis that splits tensors, such as tp=2" : "use " + list;
  }

  const ShardingGraph &graph;
  StringRef path;
  std::vector<std::string> &notes;
  Seeds seeds;
  std::optional<std::vector<NamedResult>> results; ///< set by the first call of `listResults`
};
} // namespace

llvm::Expected<Seeds> seedFromFile(const ShardingGraph &graph, StringRef text, StringRef path,
                                   std::vector<std::string> &notes) {
  return FileReader(graph, path, notes).read(text);
}

} // namespace parashard::sharding
