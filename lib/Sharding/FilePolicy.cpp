// Implements two policies: everything replicated, and shardings from a user's JSON file.
#include "dialects/ps/Refusal.h"
#include "lib/IR/Parameters.h"
#include "lib/Sharding/Policy.h"
#include "lib/Support/JsonDocument.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace parashard::ir;
using namespace parashard::ps;
using namespace parashard::support;

namespace parashard::sharding {

static bool isParameter(const ShardingNode &node) {
  return node.variable && VariableOp(node.variable).getKind() == VariableKind::Parameter;
}

std::vector<Seed> seedReplicated(const ShardingGraph &graph) {
  std::vector<Seed> seeds;
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    if (!isParameter(node))
      continue;
    TensorSplits splits;
    for (int64_t size : node.shape)
      splits.push_back(wholeSplit(size));
    seeds.push_back({unsigned(i), splits, "policy replicated"});
  }
  return seeds;
}

namespace {
class FileReader {
public:
  FileReader(const ShardingGraph &graph, StringRef path, std::vector<std::string> &notes)
      : graph(graph), path(path), notes(notes) {}

  llvm::Expected<std::vector<Seed>> read(StringRef text) {
    llvm::Expected<JsonDocument> json = JsonDocument::parse(text);
    if (!json)
      return fail(llvm::toString(json.takeError()));
    if (!json->getRoot().isObject())
      return fail("expected an object {\"GLOB\": {\"DIM\": [\"axis\", ...]}}");
    std::vector<Seed> seeds;
    Members globs = json->getRoot().getMembers();
    // Reads the globs in file order, since the first matching glob wins.
    for (const auto &[glob, value] : globs)
      if (llvm::Error error = readGlob(glob, value, seeds))
        return std::move(error);
    return seeds;
  }

private:
  llvm::Error fail(const Twine &message) const {
    return createFlagError("sharding-policy " + path, ": " + message);
  }

  using Members = std::vector<std::pair<std::string, JsonValue>>;

  llvm::Error readGlob(StringRef glob, JsonValue value, std::vector<Seed> &seeds) {
    if (!value.isObject())
      return fail("\"" + glob +
                  "\" is not an object {\"DIM\": [\"axis\", ...]}, such as {\"0\": [\"tp\"]}");
    Members dims = value.getMembers();
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
        without.push_back(VariableOp(node.variable).getDisplayName().str());
        missing = missing ? missing : &node;
        continue;
      }
      any = true;
      llvm::Expected<TensorSplits> splits = readDims(glob, node, dims);
      if (!splits)
        return splits.takeError();
      seeds.push_back({unsigned(i), *splits, ("policy " + path + ": \"" + glob + "\"").str()});
    }
    if (any && !without.empty())
      notes.push_back(("sharding policy " + path + ": \"" + glob + "\" skips " +
                       llvm::Twine(without.size()) + " parameters that lack one of the dims (" +
                       listKeys(dims) + "): " + joinSome(without))
                          .str());
    if (!any && missing) // all matching parameters lack a dim
      return readDims(glob, *missing, dims).takeError();
    if (any)
      return llvm::Error::success();
    return fail("no parameter matches \"" + glob + "\"; parameters are " + listParameters());
  }

  std::string listParameters() const {
    llvm::SetVector<StringRef> names; // parts of a split parameter share one name
    for (const ShardingNode &node : graph.nodes)
      if (isParameter(node))
        names.insert(VariableOp(node.variable).getDisplayName());
    constexpr size_t kShown = 5;
    std::string list = llvm::join(names.getArrayRef().take_front(kShown), ", ");
    return names.size() > kShown
               ? list + llvm::formatv(" and {0} more", names.size() - kShown).str()
               : list;
  }

  static std::optional<size_t> findDim(const ShardingNode &node, StringRef key) {
    int64_t dim, rank = node.shape.size();
    if (key.getAsInteger(10, dim) || dim < -rank || dim >= rank)
      return std::nullopt;
    return dim < 0 ? dim + rank : dim;
  }
  /// Returns true if the tensor has the dims of all keys. Skips keys that are not numbers, which
  /// `readDims` reports.
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

  llvm::Expected<TensorSplits> readDims(StringRef glob, const ShardingNode &node,
                                        const Members &dims) {
    StringRef name = VariableOp(node.variable).getDisplayName();
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
      llvm::Expected<SmallVector<StringAttr>> list = readAxes(where, name, axes, used);
      if (!list)
        return list.takeError();
      splits[*dim] = makeSplit(node.shape[*dim], *list);
    }
    return splits;
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
};
} // namespace

llvm::Expected<std::vector<Seed>> seedFromFile(const ShardingGraph &graph, StringRef text,
                                               StringRef path, std::vector<std::string> &notes) {
  return FileReader(graph, path, notes).read(text);
}

} // namespace parashard::sharding
