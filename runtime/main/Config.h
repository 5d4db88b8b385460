// Reads the flags of a JSON file (--config).
#ifndef PSRT_MAIN_CONFIG_H
#define PSRT_MAIN_CONFIG_H

#include "runtime/main/FlagTable.h"

namespace psrt {

/// Returns the arguments that the JSON object of flags in `path` adds to a command line already
/// parsed by `table`. A flag of the file is skipped if the command line gives the same flag or one
/// that excludes it. Throws CLI::ParseError.
std::vector<std::string> readConfig(const std::string &path, const FlagTable &table);

} // namespace psrt

#endif
