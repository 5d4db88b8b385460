// The policies that need no search: everything whole, and a user's JSON file.
#include "lib/Sharding/Policy.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace parashard::ps {

static bool isDecidable(const ShardingNode &node) {
  return node.variable && VariableOp(node.variable).getKind() == VariableKind::Parameter;
}

std::vector<Seed> seedReplicated(const ShardingGraph &graph) {
  std::vector<Seed> seeds;
  for (auto [i, node] : llvm::enumerate(graph.nodes)) {
    if (!isDecidable(node))
      continue;
    TensorSplits splits;
    for (int64_t size : node.shape)
      splits.push_back(wholeSplit(size));
    seeds.push_back({unsigned(i), splits, "policy replicated"});
  }
  return seeds;
}

bool matchesGlob(StringRef glob, StringRef name) {
  if (glob.empty())
    return name.empty();
  if (glob.front() == '*') {
    for (size_t skip = 0; skip <= name.size(); ++skip)
      if (matchesGlob(glob.drop_front(), name.drop_front(skip)))
        return true;
    return false;
  }
  return !name.empty() && (glob.front() == '?' || glob.front() == name.front()) &&
         matchesGlob(glob.drop_front(), name.drop_front());
}

namespace {
class FileReader {
public:
  FileReader(const ShardingGraph &graph, StringRef path) : graph(graph), path(path) {}

  llvm::Expected<std::vector<Seed>> read(StringRef text) {
    llvm::Expected<llvm::json::Value> json = llvm::json::parse(text);
    if (!json)
      return fail(llvm::toString(json.takeError()));
    const llvm::json::Object *globs = json->getAsObject();
    if (!globs)
      return fail("expected an object {\"GLOB\": {\"DIM\": [\"axis\", ...]}}");
    std::vector<Seed> seeds;
    for (const std::string &glob : getKeysInOrder(text, *globs))
      if (llvm::Error error = readGlob(glob, *globs->get(glob), seeds))
        return std::move(error);
    return seeds;
  }

private:
  llvm::Error fail(const Twine &message) const {
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "sharding policy " + path + ": " + message);
  }

  /// llvm::json sorts an object's keys; the order in the text says which glob wins.
  static std::vector<std::string> getKeysInOrder(StringRef text, const llvm::json::Object &object) {
    std::vector<std::pair<size_t, std::string>> places;
    for (auto &entry : object) {
      std::string key = llvm::formatv("{0}", llvm::json::Value(entry.first.str())).str();
      places.push_back({text.find(key), entry.first.str()});
    }
    llvm::sort(places);
    std::vector<std::string> keys;
    for (auto &place : places)
      keys.push_back(place.second);
    return keys;
  }

  static bool matches(StringRef glob, VariableOp variable) {
    if (matchesGlob(glob, variable.getSymName()))
      return true;
    ArrayAttr names = variable.getNamesAttr();
    return names && llvm::any_of(names.getAsRange<StringAttr>(), [&](StringAttr name) {
             return matchesGlob(glob, name.getValue());
           });
  }

  llvm::Error readGlob(StringRef glob, const llvm::json::Value &value, std::vector<Seed> &seeds) {
    const llvm::json::Object *dims = value.getAsObject();
    if (!dims)
      return fail("\"" + glob +
                  "\" is not an object {\"DIM\": [\"axis\", ...]}, such as {\"0\": [\"tp\"]}");
    bool any = false;
    for (auto [i, node] : llvm::enumerate(graph.nodes)) {
      if (!isDecidable(node) || !matches(glob, node.variable))
        continue;
      any = true;
      if (llvm::any_of(seeds, [&](const Seed &seed) { return seed.variable == i; }))
        continue;
      llvm::Expected<TensorSplits> splits = readDims(node, *dims);
      if (!splits)
        return splits.takeError();
      seeds.push_back({unsigned(i), *splits, ("policy " + path + ": \"" + glob + "\"").str()});
    }
    if (any)
      return llvm::Error::success();
    return fail("no parameter matches \"" + glob + "\"; parameters are " + listParameters());
  }

  std::string listParameters() const {
    std::string list;
    unsigned count = 0;
    for (const ShardingNode &node : graph.nodes)
      if (isDecidable(node) && ++count <= 5)
        list += (list.empty() ? "" : ", ") + VariableOp(node.variable).getDisplayName().str();
    return count > 5 ? list + llvm::formatv(" and {0} more", count - 5).str() : list;
  }

  llvm::Expected<TensorSplits> readDims(const ShardingNode &node, const llvm::json::Object &dims) {
    StringRef name = VariableOp(node.variable).getDisplayName();
    TensorSplits splits;
    for (int64_t size : node.shape)
      splits.push_back(wholeSplit(size));
    SmallVector<StringAttr> used;
    for (auto &[key, axes] : dims) {
      int64_t dim;
      if (StringRef(key).getAsInteger(10, dim) || dim < -int64_t(splits.size()) ||
          dim >= int64_t(splits.size()))
        return fail(llvm::formatv("{0} has no dim \"{1}\"; it has {2} dims, counted from 0", name,
                                  StringRef(key), splits.size())
                        .str());
      llvm::Expected<SmallVector<StringAttr>> list = readAxes(name, axes, used);
      if (!list)
        return list.takeError();
      size_t place = dim < 0 ? dim + splits.size() : dim;
      splits[place] = makeSplit(node.shape[place], *list);
    }
    return splits;
  }

  llvm::Expected<SmallVector<StringAttr>>
  readAxes(StringRef variable, const llvm::json::Value &value, SmallVectorImpl<StringAttr> &used) {
    const llvm::json::Array *list = value.getAsArray();
    if (!list)
      return fail("axes of " + variable + " are not a list [\"axis\", ...]");
    SmallVector<StringAttr> axes;
    for (const llvm::json::Value &entry : *list) {
      auto text = entry.getAsString();
      if (!text)
        return fail("an axis of " + variable + " is not a string");
      auto axis = StringAttr::get(graph.mesh.getContext(), *text);
      if (!graph.mesh.has(axis))
        return fail("the mesh has no axis \"" + *text + "\"; it has " + listAxes());
      if (llvm::is_contained(used, axis))
        return fail("axis \"" + *text + "\" is used twice for " + variable +
                    "; an axis splits one dim of a tensor");
      used.push_back(axis);
      axes.push_back(axis);
    }
    return axes;
  }

  std::string listAxes() const {
    std::string list;
    for (AxisAttr axis : graph.mesh.getAxes())
      list += (list.empty() ? "\"" : ", \"") + axis.getName().str() + "\"";
    return list;
  }

  const ShardingGraph &graph;
  StringRef path;
};
} // namespace

llvm::Expected<std::vector<Seed>> seedFromFile(const ShardingGraph &graph, StringRef text,
                                               StringRef path) {
  return FileReader(graph, path).read(text);
}

} // namespace parashard::ps
