// Implements the table of flags: parsing through llvm::cl, checks of values, plan files.
#include "tools/FlagTable.h"
#include "dialects/ps/Refusal.h"
#include "lib/Support/JsonDocument.h"
#include "shared/NearestNames.h"
#include "shared/RunFlags.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;
using namespace parashard::support;

namespace parashard {

/// Joins choices for a message. Example: "step or micro-batch", "reference, copy or none".
static std::string joinChoices(ArrayRef<StringRef> choices) {
  return join(choices.drop_back(), ", ") + (choices.size() > 1 ? " or " : "") +
         choices.back().str();
}

static std::string describeRange(Range range) {
  return range.most == INT64_MAX
             ? "a number of at least " + std::to_string(range.least)
             : "a number from " + std::to_string(range.least) + " to " + std::to_string(range.most);
}

void FlagTable::addGroup(StringRef name) {
  groups.push_back(std::make_unique<cl::OptionCategory>(name));
}

FlagTable::Entry &FlagTable::add(const FlagInfo &info, std::unique_ptr<cl::Option> option,
                                 StringRef standard) {
  bool isShown = !standard.empty() && !info.help.contains("default");
  auto help = std::make_unique<std::string>(
      isShown ? (info.help + " (default: " + standard + ")").str() : info.help.str());
  option->setDescription(*help);
  option->addCategory(*groups.back());
  if (!info.value.empty())
    option->setValueStr(info.value);
  Entry &entry = entries.emplace_back();
  entry.info = info;
  entry.help = std::move(help);
  entry.option = std::move(option);
  return entry;
}

FlagTable::Entry &FlagTable::addText(const FlagInfo &info, StringRef standard,
                                     std::function<Error(StringRef)> set) {
  auto option = std::make_unique<cl::opt<std::string>>(info.name, cl::cat(*groups.back()));
  cl::opt<std::string> *text = option.get();
  Entry &entry = add(info, std::move(option), standard);
  entry.assign = [=] {
    return text->getNumOccurrences() > 0 ? set(text->getValue()) : Error::success();
  };
  entry.set = std::move(set);
  entry.getText = [text] { return text->getValue(); };
  return entry;
}

json::Value describeText(StringRef text) {
  if (text.starts_with("{")) {
    Expected<json::Value> object = json::parse(text);
    if (object && formatv("{0}", *object).str() == text)
      return std::move(*object);
    consumeError(object.takeError());
  }
  return json::Value(text.str());
}

void FlagTable::add(const FlagInfo &info, std::string &target) { add(info, target, {}); }

void FlagTable::add(const FlagInfo &info, std::string &target, ArrayRef<StringRef> choices) {
  auto set = [&target, name = info.name, choices = choices.vec()](StringRef text) -> Error {
    if (!choices.empty() && !is_contained(choices, text))
      return ps::createFlagError(name, " takes " + joinChoices(choices) + ", not '" + text + "'");
    target = text.str();
    return Error::success();
  };
  Entry &entry = addText(info, target, std::move(set));
  entry.describe = [&target, takesObject = info.takesObject]() -> std::optional<json::Value> {
    if (target.empty())
      return std::nullopt;
    return takesObject ? describeText(target) : json::Value(target);
  };
}

void FlagTable::add(const FlagInfo &info, std::vector<std::string> &target) {
  auto option = std::make_unique<cl::list<std::string>>(info.name, cl::cat(*groups.back()));
  if (info.takesCommas)
    option->setMiscFlag(cl::CommaSeparated);
  cl::list<std::string> *list = option.get();
  Entry &entry = add(info, std::move(option));
  entry.assign = [&target, list] {
    if (list->getNumOccurrences() > 0)
      target.assign(list->begin(), list->end());
    return Error::success();
  };
}

void FlagTable::add(const FlagInfo &info, bool &target) {
  auto option = std::make_unique<cl::opt<bool>>(info.name, cl::cat(*groups.back()));
  cl::opt<bool> *value = option.get();
  Entry &entry = add(info, std::move(option));
  entry.assign = [&target, value] {
    if (value->getNumOccurrences() > 0)
      target = value->getValue();
    return Error::success();
  };
}

void FlagTable::addNumber(const FlagInfo &info, Range range, std::function<void(int64_t)> set,
                          std::function<std::optional<int64_t>()> get) {
  auto read = [range, set = std::move(set), name = info.name](StringRef text) -> Error {
    int64_t number = 0;
    if (text.getAsInteger(10, number) || number < range.least || number > range.most)
      return ps::createFlagError(name, " takes " + describeRange(range) + ", not '" + text + "'");
    set(number);
    return Error::success();
  };
  std::optional<int64_t> standard = get();
  Entry &entry = addText(info, standard ? std::to_string(*standard) : "", std::move(read));
  entry.isNumber = true;
  entry.describe = [get = std::move(get)]() -> std::optional<json::Value> {
    std::optional<int64_t> number = get();
    return number ? std::optional<json::Value>(*number) : std::nullopt;
  };
}

void FlagTable::add(const FlagInfo &info, int64_t &target, Range range) {
  addNumber(
      info, range, [&target](int64_t number) { target = number; },
      [&target] { return std::optional(target); });
}

void FlagTable::add(const FlagInfo &info, std::optional<int64_t> &target, Range range) {
  addNumber(
      info, range, [&target](int64_t number) { target = number; }, [&target] { return target; });
}

void FlagTable::addPositional(StringRef help, std::string &target) {
  auto option = std::make_unique<cl::opt<std::string>>(cl::Positional, cl::cat(*groups.back()));
  cl::opt<std::string> *text = option.get();
  Entry &entry = add(FlagInfo{"", "", help}, std::move(option));
  entry.assign = [&target, text] {
    target = text->getValue();
    return Error::success();
  };
}

void FlagTable::addPositionals(StringRef help, std::vector<std::string> &target,
                               StringRef separator, std::vector<std::string> &after) {
  auto option = std::make_unique<cl::list<std::string>>(cl::Positional, cl::cat(*groups.back()));
  cl::list<std::string> *list = option.get();
  Entry &entry = add(FlagInfo{"", "", help}, std::move(option));
  entry.assign = [this, &target, separator, &after, list] {
    target.clear();
    after.clear();
    bool isSplit = !separator.empty() && isGiven(separator);
    unsigned end = isSplit ? find(separator)->option->getPosition() : UINT_MAX;
    for (unsigned i = 0; i < list->size(); ++i)
      (list->getPosition(i) < end ? target : after).push_back((*list)[i]);
    return Error::success();
  };
}

SmallVector<const cl::OptionCategory *> FlagTable::getGroups() const {
  return map_to_vector(groups, [](const auto &group) {
    return static_cast<const cl::OptionCategory *>(group.get());
  });
}

Error FlagTable::assign() {
  for (Entry &entry : entries)
    if (!takesConstraints || !entry.info.inPlan)
      if (Error error = entry.assign())
        return error;
  return Error::success();
}

Error FlagTable::set(StringRef name, StringRef text) {
  auto entry = find_if(entries, [&](const Entry &e) { return e.info.name == name; });
  assert(entry != entries.end() && entry->set && "not a plan flag");
  return entry->set(text);
}

std::vector<std::pair<std::string, std::string>> FlagTable::getConstraints() const {
  std::vector<std::pair<std::string, std::string>> constraints;
  for (const Entry &entry : entries)
    if (entry.info.inPlan && entry.option->getNumOccurrences() > 0)
      constraints.emplace_back(entry.info.name.str(), entry.getText());
  return constraints;
}

const FlagTable::Entry *FlagTable::find(StringRef name) const {
  auto entry = find_if(entries, [&](const Entry &e) { return e.info.name == name; });
  return entry == entries.end() ? nullptr : &*entry;
}

bool FlagTable::isGiven(StringRef name) const {
  const Entry *entry = find(name);
  return entry && entry->option->getNumOccurrences() > 0;
}

std::vector<std::string> FlagTable::listPlanFlags() const {
  std::vector<std::string> names;
  for (const Entry &entry : entries)
    if (entry.info.inPlan)
      names.push_back(entry.info.name.str());
  return names;
}

void FlagTable::giveFromFile(StringRef name, StringRef text) {
  const Entry *entry = find(name);
  assert(entry && entry->info.inPlan && "not a plan flag");
  if (entry->option->getNumOccurrences() == 0)
    entry->option->addOccurrence(0, name, text);
}

SmallVector<const FlagInfo *>
FlagTable::listGiven(function_ref<bool(const FlagInfo &)> matches) const {
  SmallVector<const FlagInfo *> given;
  for (const Entry &entry : entries)
    if (entry.option->getNumOccurrences() > 0 && matches(entry.info))
      given.push_back(&entry.info);
  return given;
}

//===----------------------------------------------------------------------===//
// Plan files
//===----------------------------------------------------------------------===//

static Error failPlan(StringRef path, const Twine &message) {
  return ps::createFlagError("plan \"" + path + "\"", ": " + message);
}

/// Returns the alternative to a flag: "micro-batches" for "global-batch" and vice versa, else "".
static StringRef getTwin(StringRef name) {
  return name == "micro-batches" ? "global-batch" : name == "global-batch" ? "micro-batches" : "";
}

std::string PlanFile::get(StringRef flag) const {
  auto found = find_if(flags, [&](const auto &each) { return each.first == flag; });
  return found == flags.end() ? "" : found->second;
}

std::string FlagTable::describeBadKey(StringRef name) const {
  if (const Entry *entry = find(name); entry && !name.empty())
    return formatv("\"{0}\" is a flag that plans do not contain; remove it from the file, and give "
                   "{1} on the command line",
                   name, ps::spellFlag(name));
  std::string suggestion = suggestKey(name, listPlanFlags());
  if (suggestion.empty() && isRunFlag(name))
    return formatv("\"{0}\" is a flag of the compiled program; remove it from the file, and give "
                   "{1} when you run the program",
                   name, ps::spellFlag(name));
  if (suggestion.empty())
    suggestion = "; the section Plan of ps-compile --help lists the flags of a plan";
  return ("unknown plan flag \"" + name + "\"" + suggestion).str();
}

Error FlagTable::readKey(StringRef name, const JsonValue &value, PlanFile &plan) const {
  auto assign = [](auto &target, auto read) -> Error {
    if (!read)
      return read.takeError();
    target = std::move(*read);
    return Error::success();
  };
  if (name == "predicted")
    return assign(plan.predicted, PlanPrediction::read(value));
  if (name == "measured")
    return assign(plan.measured, PlanMeasurement::read(value));
  const Entry *entry = find(name);
  if (!entry || !entry->info.inPlan)
    return createStringError(describeBadKey(name));
  std::optional<std::string> text;
  if (entry->info.takesObject && value.isObject())
    text = value.format();
  else if (!entry->isNumber)
    text = value.getAsString();
  else if (std::optional<int64_t> number = value.getAsInteger())
    text = std::to_string(*number);
  if (!text)
    return createStringError(formatv("\"{0}\" is {1}; expected {2}", name, value.describe(),
                                     entry->isNumber ? "a whole number" : "a string")
                                 .str());
  plan.flags.emplace_back(name.str(), *text);
  return Error::success();
}

Expected<PlanFile> FlagTable::parsePlan(StringRef path) const {
  sys::fs::file_status status;
  if (!sys::fs::status(path, status) && status.type() == sys::fs::file_type::character_file)
    return createStringError("is a device; give the name of a file");
  auto buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError("cannot be read: " + buffer.getError().message());
  Expected<JsonDocument> document = JsonDocument::parse((*buffer)->getBuffer());
  if (!document)
    return document.takeError();
  if (!document->getRoot().isObject())
    return createStringError("expected an object of flags, such as {\"mesh\": \"dp=2\"}");
  PlanFile plan;
  for (const auto &[name, value] : document->getRoot().getMembers())
    if (Error error = readKey(name, value, plan))
      return std::move(error);
  return plan;
}

Error FlagTable::readPlan(StringRef path) {
  Expected<PlanFile> plan = parsePlan(path);
  if (!plan)
    return failPlan(path, toString(plan.takeError()));
  StringSet<> given;
  for (const FlagInfo *flag : listGiven([](const FlagInfo &flag) { return flag.inPlan; }))
    given.insert(flag->name);
  for (const auto &[name, text] : plan->flags) {
    bool isGiven = given.contains(name) || given.contains(getTwin(name));
    if (!isGiven && find(name)->option->addOccurrence(0, name, text))
      return failPlan(path, "\"" + name + "\" does not take " + text);
  }
  prediction = std::move(plan->predicted);
  std::string mesh = plan->get("mesh");
  if (prediction && !given.contains("mesh"))
    return prediction->checkRanks(path, mesh.empty() ? "dp=1" : mesh);
  return Error::success();
}

json::Object FlagTable::describePlan() const {
  json::Object plan;
  for (const Entry &entry : entries)
    if (entry.info.inPlan)
      if (std::optional<json::Value> value = entry.describe())
        plan[entry.info.name] = std::move(*value);
  return plan;
}

} // namespace parashard
