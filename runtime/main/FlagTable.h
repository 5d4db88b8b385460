// Declares the table of a program's flags, with one entry per flag.
#ifndef PSRT_MAIN_FLAGTABLE_H
#define PSRT_MAIN_FLAGTABLE_H

#include "runtime/core/EnumNames.h"
#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace psrt {

/// A flag that must not be given together with this one.
struct FlagConflict {
  const char *other;
  const char *reason; ///< the error is "--FLAG REASON"
};

/// Describes one flag. Parsing, `--help`, run files (`--config`), errors, the comparison of ranks,
/// and docs/program-flags.md all use this description.
struct FlagInfo {
  const char *name;  ///< without dashes
  const char *value; ///< placeholder of the value in messages and documents; empty for a switch
  const char *help;
  std::vector<const char *> needs = {}; ///< at least one of these flags must be given too
  /// Another flag for the same setting. Only one of them may be given. If the command line gives
  /// one, the other one is ignored in a run file.
  const char *excludes = nullptr;
  std::vector<FlagConflict> conflicts = {};
  bool takesCommas = false; ///< commas separate values: a,b
  bool isOfProcess = false; ///< the flag may differ between the ranks of a job
  bool isInRunFile = true;  ///< a run file (--config) may set the flag
};

/// Restricts the values of a number flag.
struct NumberRange {
  uint64_t least = 0;
  uint64_t most = INT64_MAX;
};

/// Parses a command line. Each flag writes into a variable of the caller, whose value before
/// parsing is the default. Functions that fail throw CLI::ParseError.
class FlagTable {
public:
  struct Entry {
    FlagInfo info;
    CLI::Option *option = nullptr;
    const char *group = "";
    std::vector<std::string> choices; ///< the valid values; empty: any value
    bool isSwitch() const { return !*info.value; }
    /// Returns whether the flag is given, and is not a switch that is turned off (--eval=false).
    bool isSet() const { return option->count() > 0 && (!isSwitch() || option->as<bool>()); }
    /// Returns "--save FOLDER", or "--quiet" for a switch.
    std::string describe() const;
  };

  /// `program` is the name of the program in the usage line of the help.
  explicit FlagTable(const char *overview, const char *program = "program");
  FlagTable(const FlagTable &) = delete;
  FlagTable &operator=(const FlagTable &) = delete;

  /// Begins a group of flags in `--help`. Flags that are added afterwards belong to this group.
  void addGroup(const char *name) { group = name; }

  void add(const FlagInfo &info, bool &target);
  void add(const FlagInfo &info, std::string &target);
  void add(const FlagInfo &info, std::vector<std::string> &target);
  /// Calls `parse` for each value of a flag that may be given several times.
  void add(const FlagInfo &info, std::function<void(const std::string &)> parse);
  /// Adds a number. Leading zeros do not make a value octal.
  template <typename Number> void add(const FlagInfo &info, Number &target, NumberRange range) {
    CLI::Option *option = app.add_option(dashed(info), target, info.help);
    option->transform(makeValidator(range));
    finish(info, option);
  }
  /// Adds a flag whose value is the name of an enum value. Only the values in `choices` are valid
  /// (empty: all values).
  template <typename Enum, typename Target>
  void addChoice(const FlagInfo &info, Target &target, const std::vector<Enum> &choices = {}) {
    std::vector<std::string> names;
    names.reserve(choices.size());
    for (Enum choice : choices)
      names.push_back(nameOf(choice));
    addNames(info, choices.empty() ? listNames<Enum>() : names, [&target](const std::string &name) {
      Enum chosen = *findName<Enum>(name);
      target = chosen;
    });
  }

  /// Parses arguments and writes the targets. Throws CLI::Success after `--help`.
  void parse(const std::vector<std::string> &arguments);
  /// Fails if a given flag needs another flag that is not given, or conflicts with a given one.
  /// Must be called after the flags of a run file have been parsed.
  void checkGiven() const;

  const std::vector<Entry> &getEntries() const { return entries; }
  /// Returns the entry of a flag, or null. `name` has no dashes.
  const Entry *find(const std::string &name) const;
  /// Returns whether the command line contains this flag, or the other flag for the same setting.
  bool isGiven(const Entry &entry) const;
  /// Returns the given flags that must be the same on every rank, sorted: "--steps 10".
  std::vector<std::string> listGiven() const;
  /// Calls `parse`, which parses the command line. If `parse` requests the help or fails, prints
  /// the help or the error and returns the exit status. Otherwise returns nullopt. `rank` is the
  /// rank of this process: only rank 0 prints the help, and a negative rank prints nothing.
  std::optional<int> run(int64_t rank, const std::function<void()> &parse) const;

private:
  void checkNames(const std::vector<std::string> &arguments) const;
  std::string describeMismatch(const std::string &message) const;
  /// Returns "--ranks", and "-o" for a name of one letter.
  static std::string dashed(const FlagInfo &info) {
    std::string name = info.name;
    return (name.size() == 1 ? "-" : "--") + name;
  }
  static CLI::Validator makeValidator(NumberRange range);
  void addNames(const FlagInfo &info, std::vector<std::string> names,
                const std::function<void(const std::string &)> &assign);
  /// Appends the entry of an option.
  Entry &finish(const FlagInfo &info, CLI::Option *option);

  CLI::App app;
  const char *program;
  const char *group = "";
  std::vector<Entry> entries;
};

/// Fails if a flag has an empty value, for example from an unset shell variable.
void refuseEmpty(const std::vector<std::string> &arguments);

} // namespace psrt

#endif
