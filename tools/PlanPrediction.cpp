// Reads and writes the prediction and the measurement in a plan file.
#include "tools/PlanPrediction.h"
#include "dialects/ps/Refusal.h"
#include "lib/Sharding/MeshText.h"
#include "lib/Support/JsonDocument.h"
#include "shared/Counts.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include <functional>

using namespace llvm;
using namespace parashard::support;

namespace parashard {

json::Object PlanPrediction::toJson() const {
  json::Object object{{"step_s", seconds}, {"memory_bytes", memoryBytes},
                      {"mfu", mfu},        {"cluster", cluster},
                      {"ranks", ranks},    {"global-batch", globalBatch}};
  if (parameters)
    object["parameters"] = *parameters;
  return object;
}

namespace {

/// Reads the value of a key. Returns false if the value is of another type.
using Assign = std::function<bool(const JsonValue &)>;

Assign toNumber(double &target) {
  return [&target](const JsonValue &value) {
    target = value.getAsNumber().value_or(-1);
    return target >= 0;
  };
}

Assign toNumber(int64_t &target) {
  return [&target](const JsonValue &value) {
    target = value.getAsInteger().value_or(-1);
    return target >= 0;
  };
}

/// Reads an object with some of the `keys`. `texts` lists the keys whose values are strings. The
/// values of all other keys are numbers.
Error readMembers(StringRef name, const JsonValue &value,
                  const std::vector<std::pair<std::string, Assign>> &keys,
                  ArrayRef<StringRef> texts) {
  if (!value.isObject())
    return createStringError("\"" + name + "\" is " + value.describe() +
                             "; expected the object that ps-plan writes");
  std::vector<std::string> known;
  known.reserve(keys.size());
  for (const auto &[key, assign] : keys)
    known.push_back(key);
  for (const auto &[key, member] : value.getMembers()) {
    auto found = find(known, key);
    if (found == known.end())
      return createStringError("\"" + name + "\" has the unknown key \"" + key + "\"" +
                               suggestKey(key, known));
    if (!keys[size_t(found - known.begin())].second(member))
      return createStringError("\"" + name + "\": \"" + key + "\" is " + member.describe() +
                               "; expected " +
                               (is_contained(texts, key) ? "a string" : "a number of at least 0"));
  }
  return Error::success();
}

} // namespace

Expected<PlanPrediction> PlanPrediction::read(const JsonValue &value) {
  PlanPrediction read;
  auto readCluster = [&](const JsonValue &member) {
    read.cluster = member.getAsString().value_or("");
    return member.getAsString().has_value();
  };
  auto readParameters = [&](const JsonValue &member) {
    return (read.parameters = member.getAsInteger()).value_or(-1) >= 0;
  };
  if (Error error = readMembers("predicted", value,
                                {{"step_s", toNumber(read.seconds)},
                                 {"memory_bytes", toNumber(read.memoryBytes)},
                                 {"mfu", toNumber(read.mfu)},
                                 {"cluster", readCluster},
                                 {"ranks", toNumber(read.ranks)},
                                 {"global-batch", toNumber(read.globalBatch)},
                                 {"parameters", readParameters}},
                                {"cluster"}))
    return std::move(error);
  return read;
}

json::Object PlanMeasurement::toJson() const {
  return json::Object{{"step_s", seconds}, {"spread_s", spread}, {"steps", steps}};
}

Expected<PlanMeasurement> PlanMeasurement::read(const JsonValue &value) {
  PlanMeasurement read;
  if (Error error = readMembers("measured", value,
                                {{"step_s", toNumber(read.seconds)},
                                 {"spread_s", toNumber(read.spread)},
                                 {"steps", toNumber(read.steps)}},
                                {}))
    return std::move(error);
  return read;
}

Error PlanPrediction::checkModel(StringRef path, StringRef model, int64_t actual) const {
  if (!parameters || *parameters == actual)
    return Error::success();
  return ps::createFlagError("plan \"" + path + "\"",
                             ": made for a model with " + Twine(*parameters) + " parameters, but " +
                                 model + " has " + Twine(actual) +
                                 "; search for a plan for this model with ps-plan, or remove "
                                 "\"predicted\" from the file to use the plan as it is");
}

Error PlanPrediction::checkRanks(StringRef path, StringRef mesh) const {
  Expected<std::vector<sharding::MeshAxis>> axes = sharding::parseMesh(mesh, /*ranks=*/0);
  if (!axes)
    return consumeError(axes.takeError()),
           Error::success(); // the check of --mesh reports the error
  int64_t actual = 1;
  for (const sharding::MeshAxis &axis : *axes)
    actual *= axis.size;
  if (ranks == 0 || ranks == actual)
    return Error::success();
  return ps::createFlagError("plan \"" + path + "\"",
                             ": made for " + describeCount(ranks, "rank") + ", but its mesh " +
                                 mesh + " has " + Twine(actual) +
                                 "; search for a plan for this number of ranks with ps-plan, or "
                                 "remove \"predicted\" from the file to use the plan as it is");
}

} // namespace parashard
