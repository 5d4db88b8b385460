// Reads constraints on plans.
#include "lib/Planner/Constraints.h"
#include "lib/Schedules/PipelineSchedule.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace parashard::planner {

/// Largest number in a constraint. A larger end of a range is replaced by this number.
static constexpr int64_t kMaxNumber = int64_t(1) << 40;

static Expected<int64_t> parseEnd(StringRef text, StringRef whole) {
  int64_t number = 0;
  if (!text.trim().getAsInteger(10, number) && number >= 0)
    return std::min(number, kMaxNumber);
  return createStringError("'" + whole + "': '" + text +
                           "' is not a whole number; write a range as <=8, >=2 or 2..8");
}

/// Reads a list such as "1,2,4" or "1|2|4". A comma in a value with `=`, such as "modules=a,b", is
/// part of the value.
static Expected<std::vector<std::string>> parseList(StringRef text) {
  std::vector<std::string> values;
  SmallVector<StringRef> parts;
  bool hasCommas = !text.contains('|') && !text.contains('=');
  text.split(parts, hasCommas ? ',' : '|');
  for (StringRef part : parts) {
    part = part.trim();
    if (part.empty())
      return createStringError("'" + text + "' has an empty value; write a list as 1,2,4");
    values.push_back(part.str());
  }
  return values;
}

Expected<Choices> Choices::parse(StringRef text) {
  Choices choices;
  text = text.trim();
  choices.text = text;
  if (text == "*")
    return choices;
  if (text.starts_with("{")) { // JSON, such as the text of a sharding file
    choices.values.push_back(text.str());
    return choices;
  }
  StringRef rest = text;
  if ((text.starts_with("<") || text.starts_with(">")) && text.substr(1, 1) != "=")
    return createStringError("'" + text + "' is not a range; write a range as <=8, >=2 or 2..8");
  auto readEnd = [&](std::optional<int64_t> &end, StringRef from) {
    Expected<int64_t> number = parseEnd(from, text);
    if (number)
      end = *number;
    return number.takeError();
  };
  if (rest.consume_front("<=")) {
    if (Error error = readEnd(choices.most, rest))
      return std::move(error);
  } else if (rest.consume_front(">=")) {
    if (Error error = readEnd(choices.least, rest))
      return std::move(error);
  } else if (auto [low, high] = text.split(".."); !high.empty()) {
    if (Error error = readEnd(choices.least, low))
      return std::move(error);
    if (Error error = readEnd(choices.most, high))
      return std::move(error);
    if (*choices.least > *choices.most)
      return createStringError("'" + text + "': the range is empty");
  } else {
    Expected<std::vector<std::string>> values = parseList(text);
    if (!values)
      return values.takeError();
    choices.values = std::move(*values);
  }
  return choices;
}

SmallVector<int64_t> Choices::getNumbers() const {
  SmallVector<int64_t> numbers;
  for (StringRef value : values)
    if (int64_t number = 0; !value.getAsInteger(10, number))
      numbers.push_back(number);
  for (const std::optional<int64_t> &end : {least, most})
    if (end)
      numbers.push_back(*end);
  return numbers;
}

bool Choices::allows(StringRef value) const {
  int64_t number = 0;
  if (!least && !most)
    return values.empty() || is_contained(values, value);
  return !value.getAsInteger(10, number) && number >= least.value_or(INT64_MIN) &&
         number <= most.value_or(INT64_MAX);
}

bool Choices::allows(int64_t value) const { return allows(std::to_string(value)); }

bool Choices::allowsAny(int64_t first, int64_t last) const {
  if (isRange())
    return std::max(first, least.value_or(first)) <= std::min(last, most.value_or(last));
  return isFree() || any_of(getNumbers(), [&](int64_t n) { return n >= first && n <= last; });
}

const Choices *MeshChoices::find(StringRef axis) const {
  for (const auto &[name, choices] : axes)
    if (name == axis)
      return &choices;
  return nullptr;
}

/// Fails unless the choices contain a size, and only sizes.
static Error checkSizes(StringRef part, const Choices &choices) {
  constexpr int64_t kMaxSize = int64_t(1) << 20; // the devices of a mesh
  bool areSizes = all_of(choices.getValues(), [](StringRef value) {
    int64_t size = 0;
    return !value.getAsInteger(10, size) && size >= 1 && size <= kMaxSize;
  });
  if (areSizes && choices.allowsAny(1, kMaxSize))
    return Error::success();
  return createStringError("'" + part + "': a size is a whole number from 1 to " + Twine(kMaxSize) +
                           ", a list 1,2,4, a range such as <=8, or *");
}

/// Splits a mesh into its axes. A part without '=' is another size of the preceding axis. Example:
/// "dp=2,4,tp=8" gives "dp=2|4" and "tp=8".
static std::vector<std::string> splitMesh(StringRef text) {
  std::vector<std::string> axes;
  for (StringRef part : split(text, ','))
    if (axes.empty() || part.contains('='))
      axes.push_back(part.str());
    else
      axes.back() += "|" + part.trim().str();
  return axes;
}

Expected<MeshChoices> parseMeshChoices(StringRef text) {
  MeshChoices mesh;
  for (const std::string &part : splitMesh(text)) {
    auto [name, sizes] = StringRef(part).split('=');
    name = name.trim();
    if (!StringRef(part).contains('=') || !is_contained({"pp", "dp", "tp"}, name))
      return createStringError("'" + part + "': expected pp=SIZES, dp=SIZES or tp=SIZES");
    if (mesh.find(name))
      return createStringError("names the axis " + name + " twice");
    Expected<Choices> choices = Choices::parse(sizes);
    if (!choices)
      return choices.takeError();
    if (Error error = checkSizes(part, *choices))
      return std::move(error);
    mesh.axes.emplace_back(name.str(), std::move(*choices));
  }
  return mesh;
}

const Choices &Constraints::get(StringRef flag) const {
  static const Choices all;
  auto found = flags.find(flag.str());
  return found == flags.end() ? all : found->second;
}

std::vector<std::string> listSearchedValues(StringRef flag) {
  if (flag == "zero")
    return {"0", "1", "2", "3"};
  std::vector<std::string> names;
  if (flag == "num-chunks")
    for (int64_t chunks : kSearchedChunks)
      names.push_back(std::to_string(chunks));
  if (flag == "recompute")
    names.assign(std::begin(kSearchedModes), std::end(kSearchedModes));
  if (flag == "schedule")
    for (const schedules::Schedule &schedule : schedules::getSchedules())
      names.emplace_back(schedule.name);
  return names;
}

/// Joins names for a message: "none, selective and full".
static std::string joinNames(ArrayRef<std::string> names) {
  return join(names.drop_back(), ", ") + " and " + names.back();
}

/// Fails unless the choices contain a number from 1 to `most`, and only such numbers.
static Error checkNumbers(const Choices &choices, int64_t most) {
  for (StringRef value : choices.getValues())
    if (int64_t number = 0; value.getAsInteger(10, number) || number < 1 || number > most)
      return createStringError(" takes numbers from 1 to " + Twine(most) + ", not '" + value + "'");
  if (!choices.allowsAny(1, most))
    return createStringError(" '" + choices.getText() + "' contains no number from 1 to " +
                             Twine(most));
  return Error::success();
}

Error checkChoices(StringRef flag, const Choices &choices) {
  if (flag == "batch" || flag == "micro-batches")
    return checkNumbers(choices, flag == "batch" ? kMaxNumber : schedules::kMaxMicroBatches);
  std::vector<std::string> tried = listSearchedValues(flag);
  if (tried.empty())
    return choices.isRange() ? createStringError(" takes a value or a list, not the range '" +
                                                 choices.getText() + "'")
                             : Error::success();
  for (StringRef value : choices.getValues())
    if (!is_contained(tried, value))
      return createStringError(" '" + value + "' is not searched; the search tries " +
                               joinNames(tried));
  if (none_of(tried, [&](StringRef value) { return choices.allows(value); }))
    return createStringError(" '" + choices.getText() +
                             "' contains none of the searched values; the search tries " +
                             joinNames(tried));
  return Error::success();
}

} // namespace parashard::planner
