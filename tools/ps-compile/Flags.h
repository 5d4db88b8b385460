// Declares the parsed command line of ps-compile.
#ifndef PARASHARD_TOOLS_PS_COMPILE_FLAGS_H
#define PARASHARD_TOOLS_PS_COMPILE_FLAGS_H

#include "parashard/Driver.h"
#include "tools/PlanPrediction.h"
#include "llvm/Support/JSON.h"

namespace parashard {

/// The outputs of a compile: the program, the plan and its reports.
struct OutputOptions {
  std::string output;
  bool explain = false;
  std::string report;                 ///< path of the HTML report of the plan; empty: none
  std::string planData;               ///< path of the data of the report; empty: none
  std::string measured;               ///< path of a trace to show in the report; empty: none
  std::string timeline;               ///< path of the SVG timeline of a pipeline step; empty: none
  std::optional<int64_t> memoryLimit; ///< largest arena of a rank, in bytes; nullopt: no limit
  bool codegen = true;
  bool check = false;      ///< whether the program includes its one-rank version
  bool isPortable = false; ///< whether the program is for other machines
  bool verbose = false;
  std::string line;                              ///< the command line, for the program's --info
  std::string givenPlanFile;                     ///< path given to `--plan`; empty: none
  std::optional<PlanPrediction> givenPrediction; ///< prediction in the file of `--plan`
  std::string writtenPlanFile;                   ///< path given to `--write-plan`; empty: none
  llvm::json::Object planFlags; ///< content of the file of `--write-plan`: Plan flags and values
  std::optional<driver::PlanAnswer> searchAnswer; ///< plans that `--auto` found, for the report
  /// Prediction for the plan that `--auto` chose, for the file of `--write-plan`.
  std::optional<PlanPrediction> searchPrediction;
};

/// A flag of the command line, and the level whose passes use the flag.
struct GivenFlag {
  std::string name;
  ps::Level usedBy;
};

struct CommandLine {
  driver::CompileOptions compile;
  driver::WalkOptions walk;
  OutputOptions output;
  std::vector<GivenFlag> given; ///< given flags that have a `FlagInfo::level`
};

/// Parses argv. With `--auto`, also searches for the plan. On an error, prints the error and
/// returns nullopt. If the search failed, also sets `status` to the exit status. `--help` prints
/// the help and exits with 0.
std::optional<CommandLine> parseCommandLine(int argc, char **argv, int &status);

} // namespace parashard

#endif
