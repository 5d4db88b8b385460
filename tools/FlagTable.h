// Declares a table of flags, with one entry per flag.
#ifndef PARASHARD_TOOLS_FLAGTABLE_H
#define PARASHARD_TOOLS_FLAGTABLE_H

#include "dialects/ps/PsAttributes.h"
#include "tools/PlanPrediction.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace parashard {
namespace support {
class JsonValue;
} // namespace support

/// Describes one flag for parsing, `--help`, plan files and warnings.
struct FlagInfo {
  llvm::StringRef name;
  llvm::StringRef value = {}; ///< placeholder of the value in `--help`; empty for a switch
  llvm::StringRef help = {};
  /// Level whose passes use the flag. In a module at this level or later, these passes have already
  /// run, and the flag has no effect. Not set for other flags, such as `--target`, `--weights` and
  /// flags about files and reports.
  std::optional<ps::Level> level = std::nullopt;
  bool inPlan = false;      ///< plan files may hold the flag
  bool trains = false;      ///< affects only training: no effect with `--inference`
  bool needsStages = false; ///< affects only pipelines: no effect without a pipeline axis
  bool takesCommas = false; ///< takes a list: "a,b" gives two values
  bool takesObject = false; ///< a plan file may give a JSON object, whose text is the value
};

/// The content of a plan file.
struct PlanFile {
  std::vector<std::pair<std::string, std::string>> flags; ///< name and value text, in file order
  std::optional<PlanPrediction> predicted;
  std::optional<PlanMeasurement> measured;

  /// Returns the text of a flag; "" if the file does not have it.
  std::string get(llvm::StringRef flag) const;
};

/// Restricts the values of a number flag.
struct Range {
  int64_t least = 1;
  int64_t most = INT64_MAX;
};

/// Returns the text of a plan flag as a JSON value. The value is an object if the text begins with
/// "{" and printing the parsed object gives the same text. Otherwise, the value is a string.
llvm::json::Value describeText(llvm::StringRef text);

/// Owns the flags of a command line. Each flag writes into a variable of the caller; the variable's
/// value before parsing is the default. `--help` shows the default, unless it is an empty text or
/// the help text already names a default.
class FlagTable {
public:
  /// Begins a group of `--help`. Flags that are added next belong to this group.
  void addGroup(llvm::StringRef name);

  void add(const FlagInfo &info, std::string &target);
  /// Accepts only `choices`. Example: `--mode eal` gives "--mode takes train or eval, not 'eal'".
  void add(const FlagInfo &info, std::string &target, llvm::ArrayRef<llvm::StringRef> choices);
  void add(const FlagInfo &info, std::vector<std::string> &target);
  void add(const FlagInfo &info, bool &target);
  void add(const FlagInfo &info, int64_t &target, Range range);
  void add(const FlagInfo &info, std::optional<int64_t> &target, Range range);
  /// Adds the positional argument: the argument without a flag name.
  void addPositional(llvm::StringRef help, std::string &target);
  /// Adds any number of arguments without a flag name. If the flag `separator` is given, arguments
  /// after it go to `after`. `separator` may be empty.
  void addPositionals(llvm::StringRef help, std::vector<std::string> &target,
                      llvm::StringRef separator, std::vector<std::string> &after);

  /// Makes the plan flags take constraints on a searched plan instead of values. Example: `--zero`
  /// takes "0,1". `assign` then skips the plan flags, `getConstraints` returns their texts, and
  /// `set` gives them values.
  void takeConstraints() { takesConstraints = true; }

  /// Returns the groups, for llvm::cl::HideUnrelatedOptions.
  llvm::SmallVector<const llvm::cl::OptionCategory *> getGroups() const;
  /// Writes the parsed values into the targets. Errors name the flag, the value and the choices.
  llvm::Error assign();

  /// Parses `text` and writes the value to the target of a plan flag. Does not make the flag count
  /// as given.
  llvm::Error set(llvm::StringRef name, llvm::StringRef text);
  /// Returns the name and text of each given plan flag, in the order of the table.
  std::vector<std::pair<std::string, std::string>> getConstraints() const;

  /// Returns true if a flag has a value from the command line, `readPlan` or `giveFromFile`.
  bool isGiven(llvm::StringRef name) const;
  /// Returns the names of the plan flags, in the order of the table.
  std::vector<std::string> listPlanFlags() const;
  /// Gives a plan flag a value from a file, unless the flag is already given. The flag then counts
  /// as given. The next call of `assign` writes the value to the target.
  void giveFromFile(llvm::StringRef name, llvm::StringRef text);
  /// Returns the given flags for which `matches` returns true, in the order of the table.
  llvm::SmallVector<const FlagInfo *>
  listGiven(llvm::function_ref<bool(const FlagInfo &)> matches) const;

  /// Gives plan flags the values from the file at `path`. The next call of `assign` checks the
  /// values and writes the targets. Flags that the command line gives keep their values.
  /// If the command line gives `--micro-batches`, the file's `--global-batch` is ignored too, and
  /// vice versa. Fails if the file's prediction is for another number of ranks than the file's
  /// mesh. Errors name the file.
  llvm::Error readPlan(llvm::StringRef path);
  /// Reads a plan file without setting flags. Checks keys and types of values. Errors do not name
  /// the file.
  llvm::Expected<PlanFile> parsePlan(llvm::StringRef path) const;
  /// Describes a key of a plan file that is not a plan flag, and says where the key belongs or
  /// which one was meant.
  std::string describeBadKey(llvm::StringRef name) const;
  /// Returns the prediction that the plan file records; nullopt without a file or a prediction.
  const std::optional<PlanPrediction> &getPrediction() const { return prediction; }
  /// Returns all plan flags that have a value, with their values; called after `assign`.
  llvm::json::Object describePlan() const;

private:
  struct Entry {
    FlagInfo info;
    std::unique_ptr<std::string> help; ///< the text that `option` refers to
    std::unique_ptr<llvm::cl::Option> option;
    std::function<llvm::Error()> assign;
    std::function<llvm::Error(llvm::StringRef)> set;            ///< null for lists and switches
    std::function<std::string()> getText;                       ///< null if `set` is null
    std::function<std::optional<llvm::json::Value>()> describe; ///< returns nullopt without a value
    bool isNumber = false;
  };
  /// Adds a flag. `standard` is the text of its default, or empty.
  Entry &add(const FlagInfo &info, std::unique_ptr<llvm::cl::Option> option,
             llvm::StringRef standard = {});
  /// Adds a flag with the default `standard`. `set` parses the flag's text and writes its target.
  Entry &addText(const FlagInfo &info, llvm::StringRef standard,
                 std::function<llvm::Error(llvm::StringRef)> set);
  void addNumber(const FlagInfo &info, Range range, std::function<void(int64_t)> set,
                 std::function<std::optional<int64_t>()> get);
  const Entry *find(llvm::StringRef name) const;
  llvm::Error readKey(llvm::StringRef name, const support::JsonValue &value, PlanFile &plan) const;

  std::vector<std::unique_ptr<llvm::cl::OptionCategory>> groups;
  std::vector<Entry> entries;
  std::optional<PlanPrediction> prediction;
  bool takesConstraints = false;
};

} // namespace parashard

#endif
