// Declares the table of a program's flags: one entry per flag holds all that the program knows of
// it.
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

/// A flag that must not be given beside another one.
struct FlagConflict {
  const char *other;
  const char *reason; ///< follows the name of the flag in the error
};

/// Describes one flag. Parsing, `--help`, run files, errors, the comparison of ranks, and the page
/// docs/program-flags.md follow from this description.
struct FlagInfo {
  const char *name;  ///< without dashes
  const char *value; ///< placeholder of the value in messages and documents; empty for a switch
  const char *help;
  std::vector<const char *> needs = {}; ///< one of these flags must be given too
  /// A flag that sets the same thing. A run file's value is ignored if the command line gives the
  /// other flag.
  const char *excludes = nullptr;
  std::vector<FlagConflict> conflicts = {};
  bool takesCommas = false; ///< a list: a,b gives two values
  bool isOfProcess = false; ///< the ranks of a job may have different values
  bool isInRunFile = true;  ///< a run file (--config) may set the flag
};

/// Restricts the values of a number flag.
struct NumberRange {
  uint64_t least = 0;
  uint64_t most = INT64_MAX;
};

/// Owns the flags of a command line. Each flag writes into a variable of the caller; the variable's
/// value before parsing is the default. All functions that fail throw CLI::ParseError.
class FlagTable {
public:
  struct Entry {
    FlagInfo info;
    CLI::Option *option = nullptr;
    const char *group = "";
    std::vector<std::string> choices; ///< the known names; empty: not a choice
    bool isSwitch() const { return !*info.value; }
    /// Returns whether the flag is given, and is not a switch that is turned off (--eval=false).
    bool isSet() const { return option->count() > 0 && (!isSwitch() || option->as<bool>()); }
    /// Returns "--save FOLDER", or "--quiet" for a switch.
    std::string describe() const;
  };

  explicit FlagTable(const char *overview);
  FlagTable(const FlagTable &) = delete;
  FlagTable &operator=(const FlagTable &) = delete;

  /// Begins a group of `--help`; the flags added next belong to it.
  void addGroup(const char *name) { group = name; }

  void add(FlagInfo info, bool &target);
  void add(FlagInfo info, std::string &target);
  void add(FlagInfo info, std::vector<std::string> &target);
  /// Calls `parse` for each value of a flag that may be given several times.
  void add(FlagInfo info, std::function<void(const std::string &)> parse);
  /// Adds a number. Values are decimal even with leading zeros.
  template <typename Number> void add(FlagInfo info, Number &target, NumberRange range) {
    finish(std::move(info), app.add_option(dashed(info), target, info.help))
        .option->transform(makeValidator(range));
  }
  /// Adds a flag that takes the name of a value. `choices` are the values; empty: all of the enum.
  template <typename Enum, typename Target>
  void addChoice(FlagInfo info, Target &target, std::vector<Enum> choices = {}) {
    std::vector<std::string> names;
    for (Enum choice : choices)
      names.push_back(nameOf(choice));
    addNames(std::move(info), choices.empty() ? listNames<Enum>() : names,
             [&target](const std::string &name) { target = *findName<Enum>(name); });
  }

  /// Parses arguments and writes the targets. Throws CLI::Success after `--help`.
  void parse(const std::vector<std::string> &arguments);
  /// Fails if a given flag needs another one, or conflicts with it. Call it after `parse`, with the
  /// flags of a run file.
  void checkGiven() const;

  const std::vector<Entry> &getEntries() const { return entries; }
  /// Returns the entry of a name without dashes, or null.
  const Entry *find(const std::string &name) const;
  /// Returns whether the command line gives the flag, or the flag that excludes it.
  bool isGiven(const Entry &entry) const;
  /// Returns the given flags that must be the same on every rank, sorted: "--steps 10".
  std::vector<std::string> listGiven() const;
  /// Prints the help or the error of a failed parse.
  void print(const CLI::Success &done) const { app.exit(done); }

private:
  static std::string dashed(const FlagInfo &info) { return "--" + std::string(info.name); }
  static CLI::Validator makeValidator(NumberRange range);
  void addNames(FlagInfo info, std::vector<std::string> names,
                std::function<void(const std::string &)> assign);
  /// Appends the entry of an option.
  Entry &finish(FlagInfo info, CLI::Option *option);

  CLI::App app;
  const char *group = "";
  std::vector<Entry> entries;
};

} // namespace psrt

#endif
