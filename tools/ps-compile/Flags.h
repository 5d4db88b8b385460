// The command line of ps-compile.
#ifndef PARASHARD_TOOLS_PS_COMPILE_FLAGS_H
#define PARASHARD_TOOLS_PS_COMPILE_FLAGS_H

#include "parashard/Driver.h"
#include "llvm/Support/JSON.h"

namespace parashard {

/// What a compile prints and writes besides its program.
struct OutputOptions {
  std::string output;
  bool explain = false;
  std::string report;   ///< path of the plan as an HTML page; empty: none
  std::string measured; ///< path of a trace that the report shows too; empty: none
  std::string timeline; ///< path of a pipeline's step as an SVG; empty: none
  bool codegen = true;
  bool check = false;      ///< carry the one-rank program too
  bool isPortable = false; ///< for other machines
  bool verbose = false;
  std::string line;        ///< the command line, for the program's --info
  std::string planRead;    ///< path of --plan; empty: none
  std::string planFile;    ///< where `plan` is written; empty: nowhere
  llvm::json::Object plan; ///< the plan's flags, each with its value
};

/// A flag that was given, and the level whose passes use it.
struct GivenFlag {
  std::string name;
  ps::Level usedBy;
};

struct CommandLine {
  CompileOptions compile;
  WalkOptions walk;
  OutputOptions output;
  std::vector<GivenFlag> given; ///< of those that change the program
};

/// Parses argv. On a bad command line prints what is wrong and what is expected, and returns
/// nothing;
/// `--help` prints and exits with 0.
std::optional<CommandLine> parseCommandLine(int argc, char **argv);

} // namespace parashard

#endif
