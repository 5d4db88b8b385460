// Reads constraints on plans.
#include "lib/Planner/Constraints.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;

namespace parashard::planner {

static Expected<int64_t> parseEnd(StringRef text, StringRef whole) {
  int64_t number = 0;
  if (!text.trim().getAsInteger(10, number) && number >= 0)
    return number;
  return createStringError("'" + whole + "': '" + text +
                           "' is not a whole number; a range is <=8, >=2 or 2..8");
}

Expected<Choices> Choices::parse(StringRef text) {
  Choices choices;
  text = text.trim();
  if (text == "*")
    return choices;
  StringRef rest = text;
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
    SmallVector<StringRef> parts;
    text.split(parts, '|');
    for (StringRef part : parts) {
      if (part.trim().empty())
        return createStringError("'" + text + "' has an empty value; a list is 1|2|4");
      choices.values.push_back(part.trim().str());
    }
  }
  return choices;
}

bool Choices::allows(StringRef value) const {
  int64_t number = 0;
  if (!least && !most)
    return values.empty() || is_contained(values, value);
  return !value.getAsInteger(10, number) && number >= least.value_or(INT64_MIN) &&
         number <= most.value_or(INT64_MAX);
}

bool Choices::allows(int64_t value) const { return allows(std::to_string(value)); }

const Choices *MeshChoices::find(StringRef axis) const {
  for (const auto &[name, choices] : axes)
    if (name == axis)
      return &choices;
  return nullptr;
}

Expected<MeshChoices> parseMeshChoices(StringRef text) {
  MeshChoices mesh;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    size_t equals = part.find('=');
    StringRef name = part.take_front(equals).trim();
    if (equals == StringRef::npos || !is_contained({"pp", "dp", "tp"}, name))
      return createStringError("'" + part + "': expected pp=SIZES, dp=SIZES or tp=SIZES");
    if (mesh.find(name))
      return createStringError("names the axis " + name + " twice");
    Expected<Choices> choices = Choices::parse(part.substr(equals + 1));
    if (!choices)
      return choices.takeError();
    mesh.axes.emplace_back(name.str(), std::move(*choices));
  }
  return mesh;
}

const Choices &Constraints::get(StringRef flag) const {
  static const Choices all;
  auto found = flags.find(flag.str());
  return found == flags.end() ? all : found->second;
}

} // namespace parashard::planner
