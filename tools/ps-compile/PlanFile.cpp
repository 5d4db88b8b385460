// Reads and writes plan files (--plan, --write-plan).
#include "PlanFile.h"
#include "lib/Support/Files.h"
#include "lib/Support/JsonDocument.h"
#include "shared/NearestNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace parashard {
namespace {

struct PlanKey {
  const char *name;
  bool isNumber;
};
constexpr PlanKey kKeys[] = {{"mesh", false},
                             {"ranks", true},
                             {"sharding-policy", false},
                             {"split-method", false},
                             {"num-chunks", true},
                             {"schedule", false},
                             {"micro-batches", true},
                             {"global-batch", true},
                             {"loss-average", false},
                             {"zero", true},
                             {"recompute", false},
                             {"overlap", false},
                             {"align-dims", false},
                             {"precision", false},
                             {"gradient-reduction", false},
                             {"offload", false},
                             {"matmul-epilogues", false}};

Error fail(StringRef path, const Twine &message) {
  return createStringError("--plan \"" + path + "\": " + message);
}

const PlanKey *findKey(StringRef name) {
  const PlanKey *key = find_if(kKeys, [&](const PlanKey &key) { return name == key.name; });
  return key == std::end(kKeys) ? nullptr : key;
}

std::vector<std::string> listKeys() {
  std::vector<std::string> names;
  for (const PlanKey &key : kKeys)
    names.push_back(key.name);
  return names;
}

/// Returns a JSON value in command-line form. Example: 4 for "micro-batches" gives "4".
Expected<std::string> readValue(StringRef path, const PlanKey &key, JsonValue value) {
  if (key.isNumber)
    if (std::optional<int64_t> number = value.getAsInteger())
      return std::to_string(*number);
  if (!key.isNumber)
    if (std::optional<std::string> text = value.getAsString())
      return *text;
  return fail(path, formatv("\"{0}\" is {1}; expected {2}", key.name, value.describe(),
                            key.isNumber ? "a whole number" : "a string"));
}

/// Returns the alternative to a flag: "micro-batches" for "global-batch" and vice versa, else "".
StringRef getTwin(StringRef name) {
  return name == "micro-batches" ? "global-batch" : name == "global-batch" ? "micro-batches" : "";
}

/// Sets the flag `name` unless the command line gives it. `given` holds the command line's flags.
Error readKey(StringRef path, StringRef name, JsonValue value, const StringSet<> &given,
              function_ref<cl::Option *(StringRef)> find) {
  const PlanKey *key = findKey(name);
  if (!key)
    return fail(path, "unknown plan flag \"" + name + "\"" + describeNearest(name, listKeys()));
  Expected<std::string> text = readValue(path, *key, value);
  if (!text)
    return text.takeError();
  bool isGiven = given.contains(name) || given.contains(getTwin(name));
  if (!isGiven && find(name)->addOccurrence(0, name, *text))
    return fail(path, "\"" + name + "\" does not take " + *text);
  return Error::success();
}

} // namespace

Error readPlanFile(StringRef path, function_ref<cl::Option *(StringRef)> find) {
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() == sys::fs::file_type::character_file)
    return fail(path, "is a device; give the name of a file");
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return fail(path, "cannot be read: " + buffer.getError().message());
  Expected<JsonDocument> plan = JsonDocument::parse((*buffer)->getBuffer());
  if (!plan)
    return fail(path, toString(plan.takeError()));
  if (!plan->getRoot().isObject())
    return fail(path, "expected an object of flags, {\"mesh\": \"dp=2\"}");
  StringSet<> given;
  for (const PlanKey &key : kKeys)
    if (find(key.name)->getNumOccurrences() > 0)
      given.insert(key.name);
  for (const auto &[name, value] : plan->getRoot().getMembers())
    if (Error error = readKey(path, name, value, given, find))
      return error;
  return Error::success();
}

Error writePlanFile(StringRef path, const json::Object &plan) {
  return writeAtomically(
      path, [&](raw_ostream &os) { os << formatv("{0:2}\n", json::Value(json::Object(plan))); });
}

} // namespace parashard
