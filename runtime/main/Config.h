// Reads the flags of a run file: the JSON file of --config.
#ifndef PSRT_MAIN_CONFIG_H
#define PSRT_MAIN_CONFIG_H

#include "runtime/main/FlagTable.h"

namespace psrt {

/// Converts the JSON object of flags in `path` to command-line arguments. `table` has parsed the
/// command line. Skips flags that are on the command line, and flags that the command line
/// excludes. Throws CLI::ParseError.
std::vector<std::string> readConfig(const std::string &path, const FlagTable &table);

} // namespace psrt

#endif
