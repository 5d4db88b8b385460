// Reads files of constraints. The keys are flags of ps-compile or keys of veScale.
#include "lib/Planner/ConstraintsFile.h"
#include "lib/Support/JsonDocument.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace parashard::support;

namespace parashard::planner {
namespace {

constexpr StringLiteral kSplitMethod = "pipeline_parallel.split_method";
constexpr StringLiteral kSplitPoints = "pipeline_parallel.split_points";
constexpr StringLiteral kPolicy = "tensor_parallel.sharding_policy";
constexpr StringLiteral kPlan = "tensor_parallel.sharding_plan";

Error fail(const Twine &key, const Twine &message) {
  return createStringError("\"" + key + "\" " + message);
}

/// Returns the text of a string or a whole number.
std::optional<std::string> getScalar(const JsonValue &value) {
  if (std::optional<std::string> text = value.getAsString())
    return text;
  if (std::optional<int64_t> number = value.getAsInteger())
    return std::to_string(*number);
  return std::nullopt;
}

/// Returns the module after a numbered one: "h.2" gives "h.3"; nullopt for a name without a number.
std::optional<std::string> findNext(StringRef module) {
  StringRef stem = module.rtrim("0123456789");
  int64_t number = 0;
  if (module.substr(stem.size()).getAsInteger(10, number) || number == INT64_MAX)
    return std::nullopt;
  return (stem + Twine(number + 1)).str();
}

/// Reads veScale's placement of a parameter on the tensor axis: "Shard(dim=0)" gives {"0": ["tp"]},
/// "Replicate()" gives {}.
std::optional<json::Object> readPlacement(StringRef text) {
  text = text.trim();
  if (is_contained({"Replicate()", "Replicate", "R"}, text))
    return json::Object{};
  int64_t dim = 0;
  if (!text.consume_front("Shard(") && !text.consume_front("S("))
    return std::nullopt;
  text.consume_front("dim=");
  if (!text.consume_back(")") || text.getAsInteger(10, dim))
    return std::nullopt;
  return json::Object{{std::to_string(dim), json::Array{"tp"}}};
}

/// Prints globs with their splits, in order.
std::string printPolicy(std::vector<std::pair<std::string, json::Object>> policy) {
  std::string text;
  raw_string_ostream os(text);
  json::OStream json(os, /*IndentSize=*/2);
  json.object([&] {
    for (auto &[glob, splits] : policy)
      json.attribute(glob, std::move(splits));
  });
  return text + "\n";
}

class FileReader {
public:
  explicit FileReader(ArrayRef<std::string> flags) : flags(flags) {}

  Expected<FileConstraints> read(StringRef text) {
    Expected<JsonDocument> document = JsonDocument::parse(text);
    if (!document)
      return document.takeError();
    JsonValue root = document->getRoot();
    if (!root.isObject())
      return createStringError("expected an object of flags, such as {\"zero\": [0, 1]}");
    for (const auto &[key, value] : root.getMembers()) {
      if (key == "pipeline_parallel" || key == "tensor_parallel") {
        if (Error error = readGroup(key, value))
          return std::move(error);
      } else if (Error error = readKey(key, value)) {
        return std::move(error);
      }
    }
    if (isManual && !hasPoints)
      return fail(kSplitMethod, "is \"manual\" and needs \"" + kSplitPoints + "\"");
    if (isAutomatic && hasPoints)
      return fail(kSplitMethod, "is \"auto\", but \"" + kSplitPoints +
                                    "\" fixes the stages; use \"manual\", or remove the points");
    return std::move(result);
  }

private:
  /// Reads an object of veScale's keys. Example: {"pipeline_parallel": {"split_method": "flops"}}
  /// has the key "pipeline_parallel.split_method".
  Error readGroup(const std::string &group, const JsonValue &value) {
    if (!value.isObject())
      return fail(group, "is " + value.describe() + "; expected an object, such as " +
                             (group == "tensor_parallel" ? "{\"sharding_policy\": \"megatron\"}"
                                                         : "{\"split_method\": \"flops\"}"));
    for (const auto &[key, member] : value.getMembers())
      if (Error error = readKey(group + "." + key, member))
        return error;
    return Error::success();
  }

  Error readKey(const std::string &key, const JsonValue &value) {
    if (key == kSplitMethod)
      return readMethod(value);
    if (key == kSplitPoints)
      return readPoints(value);
    if (key == kPlan && value.isObject())
      return readPlan(value);
    if (key == kPolicy || key == kPlan)
      return addFlag(key, "sharding-policy", value);
    if (is_contained(flags, key))
      return addFlag(key, key, value);
    std::vector<std::string> known(flags);
    for (StringRef name : {kSplitMethod, kSplitPoints, kPolicy, kPlan})
      known.push_back(name.str());
    return createStringError("unknown key \"" + key + "\"" + suggestKey(key, known));
  }

  Error addFlag(const Twine &key, const std::string &flag, const JsonValue &value) {
    std::vector<std::string> texts;
    if (std::optional<std::string> text = getScalar(value))
      texts.push_back(*text);
    for (const JsonValue &element : value.getElements()) {
      texts.push_back(getScalar(element).value_or(""));
      if (texts.back().empty())
        return fail(key, "has the entry " + element.format() +
                             "; expected a whole number, or a string that is not empty");
    }
    if (texts.empty() || texts.front().empty())
      return fail(key, "is " + value.describe() +
                           "; expected a whole number, a string such as \"<=8\" or \"*\", or a "
                           "list such as [1, 2]");
    return addText(key, flag, join(texts, "|"));
  }

  Error addText(const Twine &key, const std::string &flag, std::string text) {
    if (any_of(result.flags, [&](const auto &other) { return other.first == flag; }) ||
        (flag == "sharding-policy" && result.policy))
      return fail(key, "is one of two keys for --" + flag + "; keep one of them");
    result.flags.emplace_back(flag, std::move(text));
    return Error::success();
  }

  Error readMethod(const JsonValue &value) {
    std::string method = value.getAsString().value_or("");
    if (method == "manual")
      return isManual = true, Error::success();
    if (method == "auto")
      return isAutomatic = true, Error::success();
    if (!is_contained({"uniform", "parameters", "flops", "time"}, method))
      return fail(kSplitMethod, "is " + value.describe() +
                                    "; expected uniform, parameters, flops, time, auto or manual");
    return addText(kSplitMethod, "split-method", method);
  }

  Error readPoints(const JsonValue &value) {
    std::vector<std::string> begins;
    for (const JsonValue &point : value.getElements()) {
      std::string module = point.getAsString().value_or("");
      std::optional<std::string> next = findNext(module);
      if (!next || StringRef(module).find_first_of(",|* ") != StringRef::npos)
        return fail(kSplitPoints, "has the entry " + point.describe() +
                                      "; expected the last module of a stage, with a number, such "
                                      "as \"layers.3\"; or give \"split-method\" the modules that "
                                      "begin a stage");
      begins.push_back(*next);
    }
    if (begins.empty())
      return fail(kSplitPoints, "is " + value.describe() +
                                    "; expected the last module of each stage except the last "
                                    "stage, such as [\"layers.3\"]");
    hasPoints = true;
    return addText(kSplitPoints, "split-method", join(begins, ","));
  }

  Error readPlan(const JsonValue &value) {
    std::vector<std::pair<std::string, json::Object>> policy;
    for (const auto &[glob, placements] : value.getMembers()) {
      std::vector<JsonValue> entries = placements.getElements();
      std::optional<json::Object> splits =
          entries.size() == 1 ? readPlacement(entries[0].getAsString().value_or("")) : std::nullopt;
      if (!splits)
        return fail(
            kPlan, "has the entry \"" + glob + "\" with " + placements.format() +
                       "; expected the placement on the tensor axis, such as [\"Shard(dim=0)\"] or "
                       "[\"Replicate()\"]");
      policy.emplace_back(glob, std::move(*splits));
    }
    if (policy.empty())
      return fail(kPlan,
                  "is empty; expected an object, such as {\"layer2.weight\": [\"Shard(dim=0)\"]}");
    if (any_of(result.flags, [](const auto &flag) { return flag.first == "sharding-policy"; }))
      return fail(kPlan, "is one of two keys for --sharding-policy; keep one of them");
    result.policy = printPolicy(std::move(policy));
    return Error::success();
  }

  ArrayRef<std::string> flags;
  FileConstraints result;
  bool isManual = false, isAutomatic = false, hasPoints = false;
};

} // namespace

Expected<FileConstraints> readConstraintsFile(StringRef text, ArrayRef<std::string> flags) {
  return FileReader(flags).read(text);
}

} // namespace parashard::planner
