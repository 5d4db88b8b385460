// The command line of a compiled program.
#ifndef PSRT_MAIN_FLAGS_H
#define PSRT_MAIN_FLAGS_H

#include "runtime/data/Samples.h"
#include <optional>
#include <string>
#include <vector>

namespace psrt {

/// `--set`: a scalar by name, or with a glob the learning rate of the parameters that match.
struct ScalarSetting {
  std::string glob, name;
  double value = 0;
};

struct Flags {
  // ranks
  int ranks = 0, threads = 0;
  std::string comm; ///< local, mpi, tcp; empty: as the process was launched
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
  std::string losses, log, gradients, trace, weights, exportWeights;
  std::string exportOnly;               ///< "trained", or a glob of names; empty: all
  int64_t maxFileBytes = 5'000'000'000; ///< of a folder of weights
  // checkpoints
  std::string save, load; ///< folders; "latest": the last one in `save`, if there is any
  int64_t saveEvery = 0, keep = 0;
  std::string config; ///< the file of flags that was read; empty: none
  std::string progress = "auto";
  bool quiet = false, info = false, version = false, check = false, checkMemory = false;
  /// All that was given and must be the same on every rank: "--steps 10", sorted.
  std::vector<std::string> given;
};

/// Parses the command line; a number is an exit status (after --help or an error that was printed).
/// `rank`: of this process; 0 alone prints the help, and below 0 nothing is printed.
std::optional<int> parseFlags(int argc, char **argv, int64_t rank, Flags &flags);

} // namespace psrt

#endif
