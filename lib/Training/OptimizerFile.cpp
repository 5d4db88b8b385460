// Reads groups of parameters with their optimizers from a JSON file.
#include "OptimizerSpec.h"
#include "dialects/ps/Refusal.h"
#include "lib/Support/JsonDocument.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace parashard::support;

using llvm::StringRef;
using llvm::Twine;

namespace parashard::training {
namespace {

class GroupsReader {
public:
  explicit GroupsReader(StringRef path) : path(path) {}

  llvm::Expected<llvm::SmallVector<OptimizerSpec>> read() {
    auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
    if (!file)
      return fail(file.getError().message());
    llvm::Expected<JsonDocument> json = JsonDocument::parse((*file)->getBuffer());
    if (!json)
      return fail(llvm::toString(json.takeError()));
    for (const auto &[key, value] : json->getRoot().getMembers())
      if (key != "groups")
        return fail("\"" + key + "\" is not a key; expected \"groups\"");
    std::vector<JsonValue> groups =
        json->getRoot().getArray("groups").value_or(JsonValue()).getElements();
    if (groups.empty())
      return fail("expected {\"groups\": [{\"optimizer\": \"adamw(lr=1e-3)\", \"parameters\": "
                  "[\"NAME\", ...]}, ...]}");
    for (const JsonValue &group : groups)
      if (llvm::Error error = readGroup(group))
        return std::move(error);
    return std::move(specs);
  }

private:
  llvm::Error fail(const Twine &message) const {
    return ps::createFlagError("optimizer @" + path, ": " + message);
  }
  /// Returns an error about a key of the group that is read. Example: "groups[1].optimizer".
  llvm::Error failAt(const Twine &key, const Twine &message) const {
    return fail("\"groups[" + Twine(specs.size()) + "]" + key + "\" " + message);
  }

  llvm::Error readGroup(const JsonValue &group) {
    if (!group.isObject())
      return failAt("", "is " + group.describe() + "; expected an object");
    for (const auto &[key, value] : group.getMembers())
      if (key != "optimizer" && key != "parameters")
        return failAt("." + key, "is not a key; expected \"optimizer\" or \"parameters\"");
    std::optional<std::string> text = group.getString("optimizer");
    if (!text)
      return failAt(".optimizer", "is not a text such as \"adamw(lr=1e-3)\"");
    llvm::Expected<OptimizerSpec> spec = parseOptimizerSpec(*text);
    if (!spec)
      return failAt(".optimizer", "is " + llvm::toString(spec.takeError()));
    if (!spec->glob.empty() || !spec->rankPredicate.empty())
      return failAt(".optimizer", "has a pattern; list the names in \"parameters\" instead");
    spec->file = path.str();
    spec->text = ("@" + path + " groups[" + Twine(specs.size()) + "]").str();
    if (llvm::Error error = readNames(group, *spec))
      return error;
    specs.push_back(std::move(*spec));
    return llvm::Error::success();
  }

  llvm::Error readNames(const JsonValue &group, OptimizerSpec &spec) {
    for (const JsonValue &value :
         group.getArray("parameters").value_or(JsonValue()).getElements()) {
      std::optional<std::string> name = value.getAsString();
      if (!name)
        return failAt(".parameters", "has " + value.describe() + "; expected names of parameters");
      auto [known, isNew] = owners.try_emplace(*name, specs.size());
      if (!isNew)
        return failAt(".parameters", "has \"" + *name + "\", which groups[" + Twine(known->second) +
                                         "] has too; remove one");
      spec.names.insert(*name);
    }
    if (spec.names.empty())
      return failAt(".parameters", "is not a list of names of parameters");
    return llvm::Error::success();
  }

  StringRef path;
  llvm::SmallVector<OptimizerSpec> specs;
  llvm::StringMap<size_t> owners; ///< index of the group, by name
};

} // namespace

llvm::Expected<llvm::SmallVector<OptimizerSpec>> readOptimizerFile(StringRef path) {
  return GroupsReader(path).read();
}

} // namespace parashard::training
