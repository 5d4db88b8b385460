// Implements the table of a program's flags on CLI11: parsing and checks.
#include "runtime/main/FlagTable.h"
#include "runtime/core/Status.h"
#include "shared/NearestNames.h"
#include "shared/WrapText.h"
#include <algorithm>
#include <charconv>
#include <sstream>

namespace psrt {

/// Splits comma-separated lists and drops empty items.
static std::vector<std::string> splitCommas(const std::vector<std::string> &lists) {
  std::vector<std::string> result;
  for (const std::string &list : lists) {
    std::stringstream stream(list);
    for (std::string item; std::getline(stream, item, ',');)
      if (!item.empty())
        result.push_back(item);
  }
  return result;
}

std::string FlagTable::Entry::describe() const {
  return dashed(info) + (isSwitch() ? "" : " ") + info.value;
}

FlagTable::FlagTable(const char *overview, const char *program) : app(overview), program(program) {
  app.set_help_flag("--help,-h", "print this help and exit");
}

/// Accepts the whole numbers of a range. CLI11's own range prints hundreds of digits in its error,
/// and reads `010` as 8.
CLI::Validator FlagTable::makeValidator(NumberRange range) {
  auto check = [=](std::string &text) -> std::string {
    uint64_t value = 0;
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc() && stop == end && value >= range.least && value <= range.most) {
      text = std::to_string(value);
      return "";
    }
    bool isLarge = error == std::errc::result_out_of_range || (stop == end && value > range.most);
    std::string limit =
        isLarge ? "most " + std::to_string(range.most) : "least " + std::to_string(range.least);
    return "must be at " + limit + " and a whole number, not \"" + text + "\"";
  };
  return CLI::Validator(check, "", "");
}

FlagTable::Entry &FlagTable::finish(const FlagInfo &info, CLI::Option *option) {
  constexpr size_t kHelpColumns = 70; // beside CLI11's 30 columns of names
  option->group(group);
  option->description(parashard::wrapText(info.help, kHelpColumns));
  if (*info.value)
    option->type_name(info.value);
  return entries.emplace_back(Entry{info, option, group, {}});
}

void FlagTable::add(const FlagInfo &info, bool &target) {
  finish(info, app.add_flag(dashed(info), target, info.help));
}

void FlagTable::add(const FlagInfo &info, std::string &target) {
  finish(info, app.add_option(dashed(info), target, info.help));
}

void FlagTable::add(const FlagInfo &info, std::vector<std::string> &target) {
  auto assign = [&target, takesCommas = info.takesCommas](const std::vector<std::string> &texts) {
    target = takesCommas ? splitCommas(texts) : texts;
  };
  finish(info, app.add_option_function<std::vector<std::string>>(dashed(info), assign, info.help));
}

void FlagTable::add(const FlagInfo &info, std::function<void(const std::string &)> parse) {
  auto assign = [parse = std::move(parse)](const std::vector<std::string> &texts) {
    std::for_each(texts.begin(), texts.end(), parse);
  };
  finish(info, app.add_option_function<std::vector<std::string>>(dashed(info), assign, info.help));
}

void FlagTable::addNames(const FlagInfo &info, std::vector<std::string> names,
                         const std::function<void(const std::string &)> &assign) {
  CLI::Option *option = app.add_option_function<std::string>(dashed(info), assign, info.help);
  auto check = [names](const std::string &text) -> std::string {
    if (std::find(names.begin(), names.end(), text) != names.end())
      return "";
    return "expected " + joinNames(names) + ", not '" + text + "'";
  };
  std::string known; // `--help` prints "COMM:{local,mpi}"
  for (const std::string &name : names)
    known += (known.empty() ? "" : ",") + name;
  option->check(CLI::Validator(check, "{" + known + "}", ""));
  finish(info, option).choices = std::move(names);
}

/// Fails for an unknown flag, and names the flag that was meant. CLI11 would also report the value
/// of the flag.
void FlagTable::checkNames(const std::vector<std::string> &arguments) const {
  for (const std::string &argument : arguments) {
    if (argument == "--")
      return;
    bool isFlag = argument.size() > 1 && argument[0] == '-' &&
                  (argument[1] == '-' || std::isalpha((unsigned char)argument[1]));
    std::string spelling = argument.substr(0, argument.find('='));
    if (!isFlag || app.get_option_no_throw(spelling))
      continue;
    std::vector<std::string> known{"help"};
    for (const Entry &entry : entries)
      known.emplace_back(entry.info.name);
    std::string name = spelling.substr(spelling.find_first_not_of('-'));
    throw CLI::ExtrasError("unknown flag " + spelling + parashard::suggestFlag(name, known),
                           CLI::ExitCodes::ExtrasError);
  }
}

/// Rewrites CLI11's error about the number of values of a flag. Examples: "--steps needs a value:
/// --steps N", "--steps is given several times; give it once".
std::string FlagTable::describeMismatch(const std::string &message) const {
  std::string flag = message.substr(0, message.find(':'));
  auto entry = std::find_if(entries.begin(), entries.end(),
                            [&](const Entry &known) { return dashed(known.info) == flag; });
  if (entry == entries.end())
    return message;
  bool isMissing = message.ends_with("missing");
  return flag + (isMissing ? " needs a value: " + entry->describe()
                           : " is given several times; give it once");
}

void FlagTable::parse(const std::vector<std::string> &arguments) {
  checkNames(arguments);
  for (const Entry &entry : entries)
    if (entry.info.excludes)
      entry.option->excludes(find(entry.info.excludes)->option);
  std::vector<const char *> argv{program};
  for (const std::string &argument : arguments)
    argv.push_back(argument.c_str());
  try {
    app.parse(int(argv.size()), argv.data());
  } catch (const CLI::ExtrasError &) {
    throw CLI::ExtrasError("unexpected argument \"" + app.remaining().back() +
                               "\"; every argument is a flag or the value of one",
                           CLI::ExitCodes::ExtrasError);
  } catch (const CLI::ArgumentMismatch &error) {
    throw CLI::ValidationError(describeMismatch(error.what()));
  }
}

void FlagTable::checkGiven() const {
  for (const Entry &entry : entries) {
    if (!entry.isSet())
      continue;
    bool isMet = entry.info.needs.empty();
    std::vector<std::string> needed;
    for (const char *name : entry.info.needs) {
      isMet |= find(name)->isSet();
      needed.push_back(find(name)->describe());
    }
    if (!isMet)
      throw CLI::ValidationError(dashed(entry.info) + " needs " + joinNames(needed));
    for (const FlagConflict &conflict : entry.info.conflicts)
      if (find(conflict.other)->isSet())
        throw CLI::ValidationError(dashed(entry.info) + " " + conflict.reason);
  }
}

const FlagTable::Entry *FlagTable::find(const std::string &name) const {
  auto entry = std::find_if(entries.begin(), entries.end(),
                            [&](const Entry &known) { return known.info.name == name; });
  return entry == entries.end() ? nullptr : &*entry;
}

bool FlagTable::isGiven(const Entry &entry) const {
  const std::set<CLI::Option *> &excluded = entry.option->get_excludes();
  return entry.option->count() > 0 ||
         std::any_of(excluded.begin(), excluded.end(),
                     [](CLI::Option *other) { return other->count() > 0; });
}

std::vector<std::string> FlagTable::listGiven() const {
  std::vector<std::string> given;
  for (const Entry &entry : entries) {
    if (!entry.isSet() || entry.info.isOfProcess)
      continue;
    std::string text = dashed(entry.info);
    for (const std::string &value : entry.option->results())
      text += " " + value;
    given.push_back(text);
  }
  std::sort(given.begin(), given.end());
  return given;
}

std::optional<int> FlagTable::run(int64_t rank, const std::function<void()> &parse) const {
  try {
    parse();
  } catch (const CLI::Success &done) {
    if (rank == 0)
      app.exit(done);
    return 0;
  } catch (const CLI::ParseError &error) {
    std::string who = rank > 0 ? format("rank %lld: ", (long long)rank) : "";
    if (rank >= 0)
      std::fprintf(stderr, "error: %s%s\n(--help lists the flags)\n", who.c_str(), error.what());
    return 2;
  }
  return std::nullopt;
}

void refuseEmpty(const std::vector<std::string> &arguments) {
  std::string flag = "an argument";
  for (const std::string &argument : arguments) {
    bool isFlag = argument.starts_with("--");
    if (isFlag)
      flag = argument.substr(0, argument.find('='));
    if (argument.empty() || (isFlag && argument.back() == '='))
      throw CLI::ValidationError(flag, "its value is empty; omit the flag, or give a value");
  }
}

} // namespace psrt
