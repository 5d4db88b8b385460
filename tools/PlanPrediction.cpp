// Reads and writes the prediction in a plan file.
#include "tools/PlanPrediction.h"
#include "dialects/ps/Refusal.h"
#include "lib/Support/JsonDocument.h"
#include "shared/NearestNames.h"

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

Expected<PlanPrediction> PlanPrediction::read(const JsonValue &value) {
  PlanPrediction read;
  if (!value.isObject())
    return createStringError("\"predicted\" is " + value.describe() +
                             "; expected the object that ps-plan writes");
  const std::vector<std::string> known = {"step_s", "memory_bytes", "mfu",       "cluster",
                                          "ranks",  "global-batch", "parameters"};
  auto assign = [](auto &target, const auto &member) {
    if (member)
      target = *member;
    return member.has_value();
  };
  for (const auto &[key, member] : value.getMembers()) {
    bool isRead = key == "step_s"         ? assign(read.seconds, member.getAsNumber())
                  : key == "mfu"          ? assign(read.mfu, member.getAsNumber())
                  : key == "cluster"      ? assign(read.cluster, member.getAsString())
                  : key == "memory_bytes" ? assign(read.memoryBytes, member.getAsInteger())
                  : key == "ranks"        ? assign(read.ranks, member.getAsInteger())
                  : key == "global-batch" ? assign(read.globalBatch, member.getAsInteger())
                  : key == "parameters"   ? (read.parameters = member.getAsInteger()).has_value()
                                          : false;
    if (!is_contained(known, key))
      return createStringError("\"predicted\" has the unknown key \"" + key + "\"" +
                               describeNearest(key, known));
    if (!isRead)
      return createStringError("\"predicted\": \"" + key + "\" is " + member.describe() +
                               "; expected " + (key == "cluster" ? "a string" : "a number"));
  }
  return read;
}

Error PlanPrediction::checkModel(StringRef path, StringRef model, int64_t actual) const {
  if (!parameters || *parameters == actual)
    return Error::success();
  return ps::createFlagError("plan \"" + path + "\"",
                             ": made for a model with " + Twine(*parameters) + " parameters, but " +
                                 model + " has " + Twine(actual) +
                                 "; search a plan for this model with ps-plan, or remove "
                                 "\"predicted\" from the file to use the plan as it is");
}

} // namespace parashard
