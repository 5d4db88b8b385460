// Defines the command-line flags of a compiled program.
#ifndef PSRT_MAIN_FLAGS_H
#define PSRT_MAIN_FLAGS_H

#include "runtime/core/Backend.h"
#include "runtime/data/Samples.h"
#include "runtime/main/Progress.h"
#include <optional>
#include <string>
#include <vector>

namespace psrt {

/// One `--set`. Sets the scalar `name`. With a glob, sets only the learning rate of the parameters
/// whose names match.
struct ScalarSetting {
  std::string glob, name;
  double value = 0;
};

class FlagTable;

/// Adds `--comm` and `--threads`. The variables must outlive the table.
void addLaunchFlags(FlagTable &table, std::optional<Comm> &comm, int &threads);

/// The parsed command line.
struct Flags {
  // ranks
  int ranks = 0, threads = 0;
  std::optional<Comm> comm; ///< nullopt: the backend of the launcher
  // data
  DataOptions data;
  bool shuffle = false;
  uint64_t seed = 0;
  std::optional<int64_t> epochs, steps;
  // update
  std::vector<ScalarSetting> set;
  std::string schedule = "constant";
  // eval
  std::vector<std::string> evalData;
  int64_t evalEvery = 0, evalSteps = 0;
  bool eval = false;
  std::string outputs;
  std::vector<std::string> outputNames;
  // out
  int64_t logEvery = 1;
  std::string losses, log, gradients, trace, weights, exportWeights;
  std::string exportOnly;               ///< "trained" or a glob of names; empty: all
  int64_t maxFileBytes = 5'000'000'000; ///< largest file of a weight folder or checkpoint
  // checkpoints
  std::string save,
      load; ///< folders; `load` may be "latest": the last checkpoint in `save`, if any
  int64_t saveEvery = 0, keep = 0;
  std::string config; ///< the file of flags that was read; empty: none
  ProgressStyle progress = ProgressStyle::Auto;
  bool quiet = false, info = false, version = false, check = false, checkMemory = false;
  /// All given flags that must be the same on every rank, sorted: "--steps 10".
  std::vector<std::string> given;
};

class FlagTable;

/// Adds all flags of a program to a table. They write into `flags`, which must outlive the table.
void addFlags(FlagTable &table, Flags &flags);

/// Parses the command line. Returns an exit status after --help or an error, else nullopt. `rank`
/// is the rank of this process: only rank 0 prints the help, and a negative rank prints nothing.
std::optional<int> parseFlags(int argc, char **argv, int64_t rank, Flags &flags);

} // namespace psrt

#endif
